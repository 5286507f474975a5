"""A filter of system calls: what Landlock and a change of user leave open.

No sockets but pairs of one's own (so no UDP, and no way to the session bus, to Docker or to an agent of the
same user), no shared memory that outlives its process, no look into other processes, no new namespaces.
"""

import ctypes
import errno
import struct
from dataclasses import dataclass

from onnxlab.grading.system_calls import prctl, processor

__all__ = ["PROCESSORS", "filter_calls"]

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PROCESSORS = tuple(_ARCHITECTURES)
"""The processors whose numbers of system calls are known here."""

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16
_X32_NUMBERS = 0x40000000  # a second set of numbers on x86_64

_CLONE_NAMESPACES = 0x7E020000
_SOCK_STREAM, _SOCK_TYPE = 1, 0xF
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4


@dataclass(frozen=True)
class _Rule:
    """Calls that are refused.

    Attributes:
        calls: Their numbers, on x86_64 and on aarch64; None where there is no such call.
        answer: The error they get; 0 to do nothing and say that it is done.
        argument: Refuse only by the value of this argument.
        mask: The bits of it that count.
        values: Refuse if it is one of these, or, with `unless`, if it is none of them.
        unless: See `values`.
        any_bit: Refuse if any bit of the mask is set.
    """

    calls: tuple[tuple[int | None, int | None], ...]
    answer: int = errno.EPERM
    argument: int | None = None
    mask: int = 0xFFFFFFFF
    values: tuple[int, ...] = ()
    unless: bool = False
    any_bit: bool = False


def _same(*numbers: int) -> tuple[tuple[int, int], ...]:
    return tuple((number, number) for number in numbers)


_ALWAYS = (
    _Rule(((41, 198), (42, 203)), errno.EACCES),  # socket, connect
    # socketpair: only streams, which are connected for ever; a datagram can be sent to any path
    _Rule(((53, 199),), errno.EACCES, argument=1, mask=_SOCK_TYPE, values=(_SOCK_STREAM,), unless=True),
    # ptrace, process_vm_readv and _writev, kcmp, pidfd_getfd
    _Rule(((101, 117), (310, 270), (311, 271), (312, 272), (438, 438))),
    # shmget, shmat, shmctl, semget, msgget, mq_open, mq_unlink
    _Rule(((29, 194), (30, 196), (31, 195), (64, 190), (68, 186), (240, 180), (241, 181))),
    # memfd_create, memfd_secret: memory that belongs to no process; io_uring: calls that pass this filter by
    _Rule(((319, 279), *_same(447, 425, 426, 427)), errno.ENOSYS),
    # add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd
    _Rule(((248, 217), (249, 218), (250, 219), (321, 280), (298, 241), (323, 282))),
    # unshare, setns, mount, umount2, pivot_root, chroot, name_to_handle_at, open_by_handle_at, open_tree, ...
    _Rule(((272, 97), (308, 268), (165, 40), (166, 39), (155, 41), (161, 51), (303, 264), (304, 265))),
    _Rule(_same(428, 429, 430, 431, 432, 433, 442)),
    _Rule(((56, 220),), argument=0, mask=_CLONE_NAMESPACES, any_bit=True),  # clone
    _Rule(_same(435), errno.ENOSYS),  # clone3, whose flags cannot be seen; C libraries then take clone
    # setpriority, ioprio_set, sched_setattr, sched_setscheduler, sched_setparam, migrate_pages, move_pages:
    # they reach other processes too
    _Rule(((141, 140), (251, 30), (314, 274), (144, 119), (142, 118), (256, 238), (279, 239))),
    # prlimit64 and sched_setaffinity: only of oneself
    _Rule(((302, 261), (203, 122)), argument=0, values=(0,), unless=True),
    # prctl: not to outlive the watcher, nor to hide from it
    _Rule(((157, 167),), argument=0, values=(_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE)),
)
_OWNERSHIP = (
    # chmod, fchmod, fchmodat, fchmodat2, chown, fchown, lchown, fchownat: they do nothing and say that it is
    # done, for shutil.copy() calls one of them
    _Rule(((90, None), (91, 52), (268, 53), (452, 452), (92, None), (93, 55), (94, None), (260, 54)), 0),
    # setxattr, lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr
    _Rule(((188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16)), errno.ENOTSUP),
    # utime, utimes, futimesat, utimensat: refused, for Path.touch() makes a file only if this fails
    _Rule(((132, None), (235, None), (261, None), (280, 88))),
)


def filter_calls(*, files_are_own: bool) -> None:
    """Refuse calls from now on, in this process and all it starts; it cannot be taken back.

    The process must have given up new privileges before.

    Args:
        files_are_own: Whether files that are not to be touched belong to the same user. Then the calls that
            change the mode, the owner or the time of a file have no effect: Landlock does not know them.

    Raises:
        OSError: If the kernel cannot, or if the processor is not known here.
    """
    known = processor()
    if known not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"the system calls of this processor ({known}) are not known")
    rules = _ALWAYS + (_OWNERSHIP if files_are_own else ())
    code = _program(known, rules)
    instructions = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions))
    holder = ctypes.create_string_buffer(program)
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(holder))


def _program(known: str, rules: tuple[_Rule, ...]) -> bytes:
    """Return the filter in the kernel's own little language: eight bytes a line, jumps forward only."""
    lines = [
        _line(_LOAD, _ARCHITECTURE_AT),
        _line(_EQUAL, _ARCHITECTURES[known], if_true=1),
        _line(_ANSWER, _KILL),
        _line(_LOAD, _NUMBER_AT),
    ]
    if known == "x86_64":
        lines += [_line(_AT_LEAST, _X32_NUMBERS, if_false=1), _line(_ANSWER, _REFUSE | errno.ENOSYS)]
    column = PROCESSORS.index(known)
    for rule in rules:
        refused = _refusal(rule)
        for call in rule.calls:
            number = call[column]
            if number is not None:
                lines += [_line(_EQUAL, number, if_false=len(refused)), *refused]
    lines.append(_line(_ANSWER, _ALLOW))
    return b"".join(lines)


def _refusal(rule: _Rule) -> list[bytes]:
    """Return what follows when the number of a call is one of a rule's."""
    refuse = _line(_ANSWER, _REFUSE | rule.answer)
    if rule.argument is None:
        return [refuse]
    allow = _line(_ANSWER, _ALLOW)
    look = [_line(_LOAD, _ARGUMENTS_AT + 8 * rule.argument), _line(_AND, rule.mask)]
    if rule.any_bit:
        return [*look, _line(_ANY_BIT, rule.mask, if_false=1), refuse, allow]
    compare = [_line(_EQUAL, one, if_true=len(rule.values) - at) for at, one in enumerate(rule.values)]
    otherwise, if_equal = (refuse, allow) if rule.unless else (allow, refuse)
    return [*look, *compare, otherwise, if_equal]


def _line(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)
