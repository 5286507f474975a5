"""The seccomp-bpf filter of system calls, for what Landlock and a change of user leave open.

It refuses sockets other than socket pairs (so UDP, the session bus, Docker and the same user's agents are out
of reach), shared memory that outlives its process, access to other processes and new namespaces. If a
submission runs as the grader's own user, it also refuses signals to other processes. Calls that were added to
Linux after this table was made get the answer of a kernel without them.

A filter is a program of classic BPF that the kernel runs at each system call (SECCOMP_MODE_FILTER). It sees
the call's number and its arguments as numbers, but not what they point to. A call whose flags stand behind a
pointer (clone3, openat2) can therefore only be refused as a whole.
"""

import ctypes
import errno
import os
import platform
import signal
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from onnxlab_class.sandbox.libc import LINUX, prctl

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PROCESSORS = tuple(_ARCHITECTURES)
"""The processors whose system call numbers are in this module."""
NEXT_CALL = 470
"""The first number that nobody has classified; 469 is file_setattr, of Linux 6.17."""
UNKNOWN = {
    "x86_64": (range(337, 424), range(NEXT_CALL, 2**32 - 1)),  # and the x32 ABI's numbers
    "aarch64": (range(295, 424), range(NEXT_CALL, 2**32 - 1)),
}
"""The numbers that a filter answers as if there were no such call: these tables do not classify them."""

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # SECCOMP_RET_KILL_PROCESS, _ERRNO, _ALLOW
# BPF_LD|BPF_W|BPF_ABS, BPF_ALU|BPF_AND, BPF_JMP with BPF_JEQ, BPF_JGE, BPF_JSET, BPF_RET
_LOAD, _AND, _EQUAL, _AT_LEAST, _ANY_BIT, _ANSWER = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # in struct seccomp_data

_CLONE_NAMESPACES = 0x7E020000  # every CLONE_NEW... flag
_CLONE_FILES, _CLONE_THREAD, _CLOSE_RANGE_UNSHARE = 0x400, 0x10000, 2
_SOCK_STREAM, _SOCK_TYPE = 1, 0xF
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
_O_TRUNC, _O_ACCMODE = 0x200, 3
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX, _F_SETPIPE_SZ = 8, 10, 15, 1031
_SET_LOCK = (6, 7, 37, 38)  # F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW
_SO_SNDBUF, _SO_SNDBUFFORCE = 7, 32
_RLIMIT_CPU = 0
_EXIT_SIGNAL = 0xFF  # the bits of clone's flags with the signal that a child's end sends its parent
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: whether it is a terminal, what there is to read
_HARMLESS_REQUESTS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)


@dataclass(frozen=True)
class Rule:
    """System calls that are refused.

    Attributes:
        calls: Their numbers on x86_64 and on aarch64; None where there is no such call.
        answer: The error that they return; 0 to do nothing and return success.
        argument: The index of an argument whose value decides; None to refuse every call.
        mask: The bits of the argument that count.
        values: Refuse if the argument is one of these or, with `unless`, if it is none of them.
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


def _same_number(*numbers: int) -> tuple[tuple[int, int], ...]:
    return tuple((number, number) for number in numbers)


_ALWAYS = (
    Rule(((41, 198), (42, 203)), errno.EACCES),  # socket, connect
    # socketpair: only streams, which stay connected; a datagram socket can send to any path
    Rule(((53, 199),), errno.EACCES, argument=1, mask=_SOCK_TYPE, values=(_SOCK_STREAM,), unless=True),
    # What is written into a socket or a pipe is memory of no process. So buffers keep their size: setsockopt
    # with SO_SNDBUF or SO_SNDBUFFORCE, fcntl with F_SETPIPE_SZ. No descriptor is sent to where it is not
    # counted: sendmsg, sendmmsg. And no buffer holds a reference to a page, which keeps a large page whole:
    # vmsplice, splice, tee, sendfile; copying a file then reads and writes.
    Rule(((54, 208),), argument=2, values=(_SO_SNDBUF, _SO_SNDBUFFORCE)),
    Rule(((72, 25),), argument=1, values=(_F_SETPIPE_SZ,)),
    Rule(((46, 211), (307, 269)), errno.EACCES),
    Rule(((278, 75), (275, 76), (276, 77), (40, 71)), errno.ENOSYS),
    # Locks of parts of a file: memory of the kernel that no control group counts, without a limit. fcntl then
    # does nothing and returns success, which sqlite3 and others need.
    Rule(((72, 25),), 0, argument=1, values=_SET_LOCK),
    # fallocate: gigabytes of disk in a moment, between two checks of the watcher. C libraries write instead.
    Rule(((285, 47),), errno.EOPNOTSUPP),
    # The names of files that others create, also where no folder can be listed: inotify_init, inotify_init1,
    # inotify_add_watch, fanotify_init, fanotify_mark
    Rule(((253, None), (294, 26), (254, 27), (300, 262), (301, 263)), errno.ENOSYS),
    # ptrace, process_vm_readv and _writev, kcmp, pidfd_getfd
    Rule(((101, 117), (310, 270), (311, 271), (312, 272), (438, 438))),
    # shmget, shmat, shmctl, semget, semop, semctl, semtimedop
    Rule(((29, 194), (30, 196), (31, 195), (64, 190), (65, 193), (66, 191), (220, 192))),
    # msgget, msgsnd, msgrcv, msgctl, mq_open, mq_unlink
    Rule(((68, 186), (69, 189), (70, 188), (71, 187), (240, 180), (241, 181))),
    # Attributes of files, which Landlock does not control, and which are no part of a file's size: setxattr,
    # lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr
    Rule(((188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16)), errno.ENOTSUP),
    # setxattrat, getxattrat, listxattrat, removexattrat, file_getattr, file_setattr
    Rule(_same_number(463, 464, 465, 466, 468, 469), errno.ENOSYS),
    # uretprobe, uprobe: the kernel's own, for a process that is traced
    Rule(((335, None), (336, None)), errno.ENOSYS),
    # ioctl: flags of a file and whatever else a file system or a device offers
    Rule(((16, 29),), errno.ENOTTY, argument=1, values=_HARMLESS_REQUESTS, unless=True),
    # landlock_create_ruleset, landlock_add_rule, landlock_restrict_self: a rule keeps a deleted file
    Rule(_same_number(444, 445, 446), errno.ENOSYS),
    # A thread with descriptors that are not its process's, which nobody counts: clone, close_range
    Rule(((56, 220),), argument=0, mask=_CLONE_THREAD | _CLONE_FILES, values=(_CLONE_THREAD,)),
    Rule(_same_number(436), argument=2, mask=_CLOSE_RANGE_UNSHARE, any_bit=True),
    # statmount, listmount: the mounts of the machine
    Rule(_same_number(457, 458), errno.ENOSYS),
    # memfd_create, memfd_secret: memory that belongs to no process; io_uring: calls that no filter sees
    Rule(((319, 279), *_same_number(447, 425, 426, 427)), errno.ENOSYS),
    # add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd
    Rule(((248, 217), (249, 218), (250, 219), (321, 280), (298, 241), (323, 282))),
    # unshare, setns, mount, umount2, pivot_root, chroot, name_to_handle_at, open_by_handle_at; open_tree,
    # move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, open_tree_attr
    Rule(((272, 97), (308, 268), (165, 40), (166, 39), (155, 41), (161, 51), (303, 264), (304, 265))),
    Rule(_same_number(428, 429, 430, 431, 432, 433, 442, 467)),
    Rule(((56, 220),), argument=0, mask=_CLONE_NAMESPACES, any_bit=True),  # clone
    Rule(_same_number(435), errno.ENOSYS),  # clone3, whose flags no filter sees; C libraries then use clone
    # setpriority, ioprio_set, sched_setattr, sched_setscheduler, sched_setparam, migrate_pages, move_pages:
    # they act on other processes, too
    Rule(((141, 140), (251, 30), (314, 274), (144, 119), (142, 118), (256, 238), (279, 239))),
    # prlimit64 and sched_setaffinity: only for the calling process
    Rule(((302, 261), (203, 122)), argument=0, values=(0,), unless=True),
    # prctl: a process that may outlive the watcher or hide from it
    Rule(((157, 167),), argument=0, values=(_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE)),
    # setrlimit and prlimit64 with RLIMIT_CPU, at which the kernel sends SIGKILL; see _UNSTOPPABLE
    Rule(((160, 164),), argument=0, values=(_RLIMIT_CPU,)),
    Rule(((302, 261),), argument=1, values=(_RLIMIT_CPU,)),
)
_ONLY_FROM_OUTSIDE = (
    (signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU) if LINUX else ()
)
_UNSTOPPABLE = (
    # Nothing in the sandbox can send SIGKILL or a signal that stops: who is killed or stopped so was it from
    # outside, and not the student's fault. The first process of a process namespace is immune to them.
    # kill, tkill, rt_sigqueueinfo, pidfd_send_signal; tgkill, rt_tgsigqueueinfo
    Rule(((62, 129), (200, 130), (129, 138), (424, 424)), argument=1, values=_ONLY_FROM_OUTSIDE),
    Rule(((234, 131), (297, 240)), argument=2, values=_ONLY_FROM_OUTSIDE),
    # The kernel sends a signal of one's choice when a child ends (clone), when a descriptor can be read
    # (fcntl with F_SETSIG) and when time is up (timer_create, whose signal stands behind a pointer)
    Rule(((56, 220),), argument=0, mask=_EXIT_SIGNAL, values=_ONLY_FROM_OUTSIDE),
    Rule(((72, 25),), argument=1, values=(_F_SETSIG,)),
    Rule(((222, 107),), errno.ENOSYS),
)
_SAME_USER = (
    # What Landlock does not control: the mode, the owner and the times of files.
    # chmod, fchmod, fchmodat, fchmodat2, chown, fchown, lchown, fchownat: they do nothing and return
    # success, as shutil.copy() calls one of them
    Rule(((90, None), (91, 52), (268, 53), (452, 452), (92, None), (93, 55), (94, None), (260, 54)), 0),
    # utime, utimes, futimesat, utimensat: refused, as Path.touch() creates a file only if this fails
    Rule(((132, None), (235, None), (261, None), (280, 88))),
    # Emptying a file that is not opened for writing, which Landlock controls since Linux 6.2: truncate; open
    # and openat with O_TRUNC and the access mode 0 (read) or 3 (neither); openat2, whose flags no filter sees
    Rule(((76, 45),)),
    Rule(((2, None),), argument=1, mask=_O_TRUNC | _O_ACCMODE, values=(_O_TRUNC, _O_TRUNC | _O_ACCMODE)),
    Rule(((257, 56),), argument=2, mask=_O_TRUNC | _O_ACCMODE, values=(_O_TRUNC, _O_TRUNC | _O_ACCMODE)),
    Rule(_same_number(437), errno.ENOSYS),
    # The kernel signals the owner of a descriptor: fcntl with F_SETOWN, F_SETSIG
    Rule(((72, 25),), argument=1, values=(_F_SETOWN, _F_SETSIG, _F_SETOWN_EX)),
    Rule(((200, 130),)),  # tkill names a thread but not its process; C libraries use tgkill
)


def _signals_to(process: int) -> Rule:
    """Return the rule that allows signals only to one process and, by kill(0), to its group.

    Landlock controls signals since Linux 6.12; before, a submission could end its watcher. A fork of the
    process can signal neither itself nor others.
    """
    # kill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo
    calls = ((62, 129), (234, 131), (129, 138), (297, 240))
    return Rule(calls, argument=0, values=(0, process), unless=True)


def filter_calls(*, same_user: bool, first_of_namespace: bool) -> None:
    """Install the filter of a submission, for this process and all that it starts. It cannot be undone.

    Call `no_new_privileges` before.

    Args:
        same_user: Whether this process runs as the grader's own user. Then the calls that change the mode,
            the owner or the times of a file have no effect, and signals reach this process only.
        first_of_namespace: Whether it is the first process of a process namespace.

    Raises:
        OSError: If the kernel has no such filter, or the processor's calls are not known here.
    """
    rules = list(_ALWAYS)
    if not first_of_namespace:
        rules += _UNSTOPPABLE
    if same_user:
        rules += [*_SAME_USER, _signals_to(os.getpid()), Rule(_same_number(424))]  # pidfd_send_signal
    install(rules)


def install(rules: Sequence[Rule]) -> None:
    """Install a filter of rules, for this process and all that it starts.

    Raises:
        OSError: If the kernel has no such filter, or the processor's calls are not known here.
    """
    name = processor()
    if name not in _ARCHITECTURES:
        raise OSError(errno.ENOSYS, f"the system calls of this processor ({name}) are not known")
    code = _program(name, rules)
    instructions = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(instructions))
    holder = ctypes.create_string_buffer(program)
    prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(holder))


def _program(name: str, rules: Sequence[Rule]) -> bytes:
    """Return the filter as classic BPF: struct sock_filter, eight bytes each, jumps forward only."""
    lines = [
        _line(_LOAD, _ARCHITECTURE_AT),
        _line(_EQUAL, _ARCHITECTURES[name], if_true=1),
        _line(_ANSWER, _KILL),
        _line(_LOAD, _NUMBER_AT),
    ]
    for numbers in UNKNOWN[name]:
        lines += [_line(_AT_LEAST, numbers.start, if_false=2), _line(_AT_LEAST, numbers.stop, if_true=1)]
        lines.append(_line(_ANSWER, _REFUSE | errno.ENOSYS))
    column = PROCESSORS.index(name)
    for rule in rules:
        refused = _refusal(rule)
        for call in rule.calls:
            number = call[column]
            if number is not None:
                lines += [_line(_EQUAL, number, if_false=len(refused)), *refused]
    lines.append(_line(_ANSWER, _ALLOW))
    return b"".join(lines)


def _refusal(rule: Rule) -> list[bytes]:
    """Return the instructions for a call whose number is one of a rule's: what they do not refuse goes on."""
    refuse = _line(_ANSWER, _REFUSE | rule.answer)
    if rule.argument is None:
        return [refuse]
    load = [_line(_LOAD, _ARGUMENTS_AT + 8 * rule.argument), _line(_AND, rule.mask)]
    next_rule = _line(_LOAD, _NUMBER_AT)  # another rule may name the same call
    if rule.any_bit:
        return [*load, _line(_ANY_BIT, rule.mask, if_false=1), refuse, next_rule]
    *others, last = rule.values
    past_refusal = int(rule.unless)
    compare = [
        _line(_EQUAL, value, if_true=len(others) - position + past_refusal)
        for position, value in enumerate(others)
    ]
    compare.append(_line(_EQUAL, last, if_true=past_refusal, if_false=1 - past_refusal))
    return [*load, *compare, refuse, next_rule]


def _line(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", operation, if_true, if_false, value)


def processor() -> str:
    """Return the name of the processor's system calls: "x86_64", "aarch64" or another."""
    machine = platform.machine().lower()
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return f"{machine}, 32 bits"
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)
