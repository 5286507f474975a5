"""Submissions that try to get out of the sandbox, at every level of this machine, as root and as a user.

escapes.py has what they try. Each runs in a new Python, since a Python that runs tests has threads.
"""

import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from onnxlab.files import remove_untrusted
from onnxlab_class.sandbox import cgroup, entry, landlock, users
from onnxlab_class.sandbox.entry import Level, NoIsolation, available, strongest
from onnxlab_class.sandbox.watcher import TOO_MUCH, Ending, disk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="namespaces, Landlock and /proc are Linux's"),
]


ESCAPES = Path(__file__).with_name("escapes.py")
ROOT = users.throw_away_user(0) is not None  # the root of a container may have no other users
_indices = itertools.count(1000 + (os.getpid() % 50_000) * 200)  # throw-away users that no other test has

Report = dict[str, Any]
Reports = dict[tuple[Level, str], Report]
SEPARATELY = {
    "keep running after the end": "test_a_daemon_does_not_outlive_the_end",
    "fork more than allowed": "test_no_more_processes_than_allowed",
    "kill or stop itself": "test_who_is_killed_was_killed_from_outside",
    "pass for a limit reached": "test_a_submissions_own_code_never_passes_for_the_watchers",
}


def escape(do: str, level: Level, who: str, within: tuple[str, ...] = (), **options: Any) -> Report:
    """Run a submission; return its report."""
    user = (
        {} if within or (who == "user" and not ROOT) else {"user" if who == "root" else "drop": free_user()}
    )
    command = [
        *within,
        sys.executable,
        str(ESCAPES),
        json.dumps({"do": do, "level": level, **user, **options}),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout, done.stderr
    report: Report = json.loads(done.stdout)
    return report


def free_user() -> int | None:
    """A throw-away user; one of a thousand in a container with few users."""
    index = next(_indices)
    return users.throw_away_user(index) or users.throw_away_user(index % 1000)


@pytest.fixture(scope="module")
def places() -> list[tuple[Level, str]]:
    """The levels this machine has, for root and for an ordinary user."""
    places = []
    for who in ["root", "user"] if ROOT else ["user"]:
        if who == "root":
            reasons: dict[str, str] = {str(level): why for level, why in available().items()}
        else:
            reasons = escape("probe", Level.LANDLOCK, who)
        places += [(level, who) for level in Level if not reasons[level]]
    if not places:
        pytest.skip(f"this machine confines nothing: {reasons}")
    return places


@pytest.fixture
def at_each_level(places: list[tuple[Level, str]], request: pytest.FixtureRequest) -> Callable[..., Reports]:
    """Runs a submission at every level, and checks that nothing of it is left.

    The strongest level is tried as root and the weakest as a user; with --all, each as both. What only takes
    long is tried at one of the two.
    """
    few = places if request.config.getoption("--all") else list(dict.fromkeys([places[0], places[-1]]))

    def run(
        do: str, at: list[tuple[Level, str]] | None = None, long: bool = False, **options: Any
    ) -> Reports:
        at = at or (few[-1:] if long and few is not places else few)
        with ThreadPoolExecutor(3) as pool:
            reports = list(pool.map(lambda place: escape(do, *place, **options), at))
        for place, report in zip(at, reports, strict=True):
            assert not report["left"], place
            assert not report["beats"], place
            assert not report["written"], place
            assert not report["heard"], place
            assert report["victim"], place
            assert report["removed"], place
            assert report["secret"] == "seed 7", place
            assert report["mode"] == 0o644, place
            if report["ending"] == "SANDBOX_FAILED":
                pytest.fail(f"{place}: {report['reason']}")
        return dict(zip(at, reports, strict=True))

    return run


def endings(reports: Reports) -> set[str]:
    return {report["ending"] for report in reports.values()}


def answers(reports: Reports) -> list[Any]:
    return [report["answer"] for report in reports.values()]


def tried() -> set[str]:
    """What entry.py's docstring says that a submission cannot do."""
    names = re.findall(r"[^;]+", re.findall(r"^ {4}.+(?:\n {4}.+)+", entry.__doc__ or "", re.MULTILINE)[0])
    assert len(names) > 40
    return {_plain(name) for name in names}


def _plain(name: str) -> str:
    return " ".join(re.sub(r"[^a-z ]", " ", name.lower().replace("'", "")).split())


def require_nothing_worked(report: Report, level: Level) -> None:
    can = {name for name, worked in report["answer"].items() if worked}
    assert can <= ({"see who runs"} if level is Level.LANDLOCK else set()), level


def test_a_submission_can_do_nothing_that_is_tried(
    at_each_level: Callable[..., Reports], places: list[tuple[Level, str]]
) -> None:
    for (level, _), report in at_each_level("try_everything", at=places).items():
        assert set(report["answer"]) == tried() - set(SEPARATELY)
        require_nothing_worked(report, level)


@pytest.mark.skipif(not ROOT, reason="asks as root")
def test_what_is_tried_works_where_nothing_is_confined() -> None:
    answer = escape("try_everything", Level.FULL, "root", user=None, unconfined=True)["answer"]
    failed = [name for name, worked in answer.items() if not worked]
    assert len(failed) < 8, failed  # another kernel or file system may not have everything


def test_what_the_list_leaves_to_other_tests_is_tested() -> None:
    assert set(SEPARATELY) <= tried()
    assert set(SEPARATELY.values()) <= set(globals())


@pytest.mark.parametrize(
    "version", [1, *(pytest.param(later, marks=pytest.mark.release) for later in range(2, 7))]
)
def test_older_landlocks_confine_files(places: list[tuple[Level, str]], version: int) -> None:
    if landlock.abi() < version:
        pytest.skip("this kernel's Landlock is older")
    for level, who in places:
        if level is Level.LANDLOCK:
            # What an older one lacks, the filter of system calls has.
            require_nothing_worked(escape("try_everything", level, who, landlock=version), level)
            assert bool(landlock.lacking(version)) == (version < 6)


def test_honest_code_can_do_its_work(at_each_level: Callable[..., Reports]) -> None:
    reports = at_each_level("use_what_it_may")
    assert endings(reports) == {"FINISHED"}
    assert answers(reports) == [[True, 0, True, 3]] * len(reports)


def test_a_python_that_only_root_can_enter_still_imports(
    places: list[tuple[Level, str]], tmp_path: Path
) -> None:
    """pytest's folder is root's alone, as /root is."""
    closed = tmp_path / "python"
    closed.mkdir()
    (closed / "found.py").write_text("")
    for level, who in places:
        if who == "root":
            report = escape("read_what_it_may", level, who, readable=[str(closed)])
            assert report["answer"] == "found", level


@pytest.mark.parametrize("do", ["block_all_signals", "stop_itself"])
def test_the_clock_ends_it(at_each_level: Callable[..., Reports], do: str) -> None:
    assert endings(at_each_level(do, limits={"wall": 1, "cpu": 600}, long=True)) == {"TIME"}


def test_computing_for_too_long_is_a_matter_of_time(at_each_level: Callable[..., Reports]) -> None:
    assert endings(at_each_level("loop_for_ever", limits={"cpu": 1}, long=True)) == {"TIME"}


def test_one_process_gets_no_more_memory(at_each_level: Callable[..., Reports]) -> None:
    assert set(answers(at_each_level("fill_memory", limits={"memory": 200}))) == {"MemoryError"}


@pytest.mark.parametrize("do", ["fill_memory_with_processes", "fill_memory_with_shared_pages"])
def test_many_processes_have_memory_together(at_each_level: Callable[..., Reports], do: str) -> None:
    assert endings(at_each_level(do, limits={"memory": 300})) == {"MEMORY"}


def test_a_file_is_no_larger_than_allowed(at_each_level: Callable[..., Reports]) -> None:
    reports = at_each_level("write_a_large_file", limits={"file": 8})
    assert set(answers(reports)) == {"File too large"}
    assert max(report["disk"] for report in reports.values()) < 9 * 2**20


@pytest.mark.parametrize(
    "do",
    [
        "fill_disk",
        "fill_disk_without_first_threads",
        "hide_files_in_a_closed_folder",
        "fill_disk_with_maps",
        "fill_disk_with_programs_that_run",
        # These differ from another one only in how the same thing is hidden.
        pytest.param("fill_disk_without_names", marks=pytest.mark.release),
        pytest.param("fill_disk_in_a_program_that_nobody_may_read", marks=pytest.mark.release),
    ],
)
def test_all_files_are_no_more_than_allowed(at_each_level: Callable[..., Reports], do: str) -> None:
    assert endings(at_each_level(do, limits={"disk": 20})) == {"DISK"}


@pytest.mark.skipif(not ROOT or not shutil.which("setpriv"), reason="needs root, and setpriv")
def test_root_in_a_container_counts_deleted_files() -> None:
    """It may neither trace others, which reading their descriptors takes, nor make namespaces."""
    as_in_a_container = ("setpriv", "--bounding-set", "-sys_ptrace,-sys_admin")
    user = {"user": free_user(), "limits": {"disk": 20}}
    report = escape("fill_disk_without_names", Level.LANDLOCK, "root", within=as_in_a_container, **user)
    assert report["ending"] == "DISK"
    report = escape("use_what_it_may", Level.LANDLOCK, "root", within=as_in_a_container, **user)
    assert report["ending"] == "FINISHED"


def test_a_fork_bomb_ends(at_each_level: Callable[..., Reports]) -> None:
    ended = endings(at_each_level("fork_for_ever", limits={"wall": 1, "processes": 20}, long=True))
    # An ordinary user's limit counts what else that user runs: where some of it ends, a bomb has more.
    assert ended == {"TIME"} if ROOT else ended <= {"TIME", "CRASHED"}


def test_many_busy_processes_come_after_all_others(at_each_level: Callable[..., Reports]) -> None:
    reports = at_each_level("slow_others_down", limits={"wall": 60}, long=True)
    assert answers(reports) == [[19] * 15] * len(reports)


def test_no_more_processes_than_allowed(at_each_level: Callable[..., Reports]) -> None:
    for place, report in at_each_level("count_forks", limits={"processes": 20}).items():
        if ROOT or place[0] is Level.FULL:
            assert 15 <= report["answer"] <= 20, place
        else:  # one's own other processes count as well, and they come and go
            assert 0 <= report["answer"] < 200, place


def test_limits_cannot_be_raised(at_each_level: Callable[..., Reports]) -> None:
    assert set(answers(at_each_level("raise_its_limits"))) == {"kept"}


def test_a_daemon_does_not_outlive_the_end(at_each_level: Callable[..., Reports]) -> None:
    assert endings(at_each_level("stay")) == {"FINISHED"}


def test_a_daemon_does_not_outlive_a_watcher_that_is_asked_to_end(
    at_each_level: Callable[..., Reports],
) -> None:
    reports = at_each_level("stay_and_wait", ask=True, limits={"wall": 90})
    assert max(report["seconds"] for report in reports.values()) < 80


def test_a_daemon_does_not_outlive_the_grader(at_each_level: Callable[..., Reports]) -> None:
    reports = at_each_level("stay_and_wait", orphaned=True, limits={"wall": 90})
    assert max(report["seconds"] for report in reports.values()) < 80


def test_killing_everybody_kills_nobody_else(at_each_level: Callable[..., Reports]) -> None:
    reports = at_each_level("kill_everybody")
    assert endings(reports) <= {"FINISHED", "CRASHED"}


def test_who_is_killed_was_killed_from_outside(at_each_level: Callable[..., Reports]) -> None:
    """As a submission can neither kill nor stop itself, it cannot feign that the machine did it."""
    reports = at_each_level("kill_itself")
    assert endings(reports) == {"FINISHED"}
    assert set(answers(reports)) == {"alive"}


@pytest.mark.parametrize("disturb", ["kill the notebook", "kill the watcher"])
def test_who_is_killed_from_outside_is_not_to_blame(
    at_each_level: Callable[..., Reports], disturb: str
) -> None:
    reports = at_each_level("sleep_long", disturb=disturb)
    assert endings(reports) == {"DISTURBED"}
    can_limit = bool(cgroup.parents(Path("/proc/self/cgroup").read_text()))
    for (_, who), report in reports.items():
        if who == "root" or not ROOT:
            assert report["in_a_group"] == can_limit


@pytest.mark.parametrize(
    ("disturb", "limits"),
    [("stand still", {"wall": 1}), ("give little", {"wall": 2}), ("give nothing", {"wall": 0.3})],
)
def test_time_in_which_the_machine_does_not_let_it_run_does_not_count(
    at_each_level: Callable[..., Reports], disturb: str, limits: dict[str, float]
) -> None:
    patience = {"patience": 10} if disturb == "give nothing" else {}
    reports = at_each_level("compute", disturb=disturb, limits=limits, long=True, **patience)
    if disturb != "give nothing":
        assert endings(reports) == {"FINISHED"}
        assert set(answers(reports)) == {"ready"}
    else:  # in ten times its limit it did not get enough: that is the machine's fault, too
        assert endings(reports) == {"DISTURBED"}
        assert all("the machine let it run" in report["reason"] for report in reports.values())


def test_much_in_sockets_is_memory(at_each_level: Callable[..., Reports]) -> None:
    reports = at_each_level("fill_memory_with_sockets", limits={"memory": 300})
    assert endings(reports) == {"MEMORY"}


def test_no_space_is_reserved_between_two_checks(at_each_level: Callable[..., Reports]) -> None:
    reports = at_each_level("reserve_disk", limits={"disk": 64})
    assert all(report["most_disk"] < 1000 for report in reports.values()), reports


def test_a_file_counts_as_long_as_its_copy_is(at_each_level: Callable[..., Reports]) -> None:
    assert endings(at_each_level("leave_sparse_files")) == {"DISK"}


def test_a_crash_is_a_crash(at_each_level: Callable[..., Reports]) -> None:
    assert endings(at_each_level("crash")) == {"CRASHED"}


@pytest.mark.parametrize("code", [1, 123])
def test_a_submissions_own_code_never_passes_for_the_watchers(
    at_each_level: Callable[..., Reports], code: int
) -> None:
    assert endings(at_each_level("say_code", code=code)) == {"CRASHED"}


def test_a_sandbox_that_cannot_be_built_is_the_machines_fault(places: list[tuple[Level, str]]) -> None:
    for level, who in places:
        report = escape("say_code", level, who, limits={"file": "much"})
        assert report["code"] == Ending.SANDBOX_FAILED
        assert report["reason"] != "it did not say why"


NOBODY_OUTSIDE = ("unshare", "--user", "--map-root-user")


@pytest.mark.skipif(
    not shutil.which("unshare") or subprocess.run([*NOBODY_OUTSIDE, "true"], check=False).returncode != 0,
    reason="needs a namespace of users",
)
def test_root_who_is_nobody_outside_is_an_ordinary_user() -> None:
    """As in a container without root: there is no other user to become."""
    for level, reason in escape("probe", Level.LANDLOCK, "user", within=NOBODY_OUTSIDE).items():
        if reason:  # a container may not allow it
            continue
        report = escape("try_everything", Level(level), "user", within=NOBODY_OUTSIDE)
        require_nothing_worked(report, Level(level))
        assert not report["left"]


def test_root_without_powers_cannot_become_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(users, "_has", lambda _: False)
    assert users.throw_away_user(0) is None


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("0 0 4294967295", 200_003),
        ("0 100000 65536", 64_539),
        ("0 1000 1", None),
        ("0 1000 1\n1 100000 65536", 64_540),
        ("0 0 500", None),
    ],
)
def test_a_throw_away_user_exists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, table: str, expected: int | None
) -> None:
    (tmp_path / "map").write_text(table)
    ranges = users._mapped(tmp_path / "map")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(users, "_has", lambda _: True)
    monkeypatch.setattr(users, "_mapped", lambda _: ranges)
    assert users.throw_away_user(3) == expected


def test_an_ordinary_user_becomes_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert users.throw_away_user(0) is None


@pytest.mark.skipif(not ROOT, reason="asks as root")
def test_root_has_to_name_a_user() -> None:
    report = escape("say_code", Level.LANDLOCK, "root", user=None)
    assert report["ending"] == "SANDBOX_FAILED"
    assert "root has to name a user" in report["reason"]


@pytest.mark.skipif(not ROOT, reason="asks as root")
def test_a_folder_that_is_another_users_is_the_machines_fault() -> None:
    report = escape("say_code", Level.LANDLOCK, "root", strange=True)
    assert report["ending"] == "SANDBOX_FAILED"
    assert str(os.sep) in report["reason"]


def test_levels_are_tried_from_the_strongest() -> None:
    reasons = available()
    assert list(reasons) == [Level.FULL, Level.LANDLOCK]
    assert strongest() is next(level for level in Level if not reasons[level])


def test_a_machine_without_any_level_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    available.cache_clear()
    monkeypatch.setattr(sys, "platform", "win32")
    try:
        assert all("WSL2" in reason for reason in available().values())
        with pytest.raises(NoIsolation, match="WSL2"):
            strongest()
    finally:
        available.cache_clear()


def test_a_python_that_does_not_start_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    available.cache_clear()
    monkeypatch.setattr(entry.sys, "executable", "/nonexistent/python")
    try:
        assert all("could not be tried" in reason for reason in available().values())
    finally:
        available.cache_clear()


@pytest.mark.parametrize("module", ["namespaces", "landlock", "watcher"])
def test_modules_can_be_imported_without_a_unix(module: str) -> None:
    """As on Windows: no resource, no fcntl, no C library to load."""
    code = (
        "import sys, ctypes, shutil, tempfile;"  # what the standard library imports there is not here
        "sys.platform = 'win32'; sys.modules['resource'] = sys.modules['fcntl'] = ctypes.CDLL = None;"
        f"import onnxlab_class.sandbox.{module};"
        "from onnxlab_class.sandbox import entry; print(entry.available())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "WSL2" in done.stdout, done.stderr


class TestFolders:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Iterator[Path]:
        folder = tmp_path / "folder"
        folder.mkdir()
        yield folder
        if folder.exists():
            remove_untrusted(folder)

    def test_small_files_count_as_blocks(self, folder: Path) -> None:
        for number in range(10):
            (folder / str(number)).touch()
        assert disk(folder, 10**9) == 10 * 4096

    def test_links_are_not_followed(self, folder: Path, tmp_path: Path) -> None:
        (folder / "link").symlink_to("/usr")
        (folder / "round").symlink_to(folder)
        assert disk(folder, 10**9) == 2 * 4096
        outside = tmp_path / "kept"
        outside.mkdir()
        (outside / "file").write_text("x")
        (folder / "out").symlink_to(outside)
        remove_untrusted(folder)
        assert not folder.exists()
        assert (outside / "file").read_text() == "x"

    def test_a_folder_deeper_than_any_path(self, folder: Path) -> None:
        here = os.open(folder, os.O_RDONLY)
        for _ in range(1100):  # deeper than Python's recursion too
            os.mkdir("d" * 20, dir_fd=here)
            inner = os.open("d" * 20, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = inner
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
        os.close(here)
        assert disk(folder, 2**60) == TOO_MUCH
        remove_untrusted(folder)
        assert not folder.exists()

    def test_a_closed_folder_is_removed(self, folder: Path) -> None:
        inner = folder / "a" / "b" / "c"
        inner.mkdir(parents=True)
        (inner / "file").touch()
        for path in (inner, inner.parent, inner.parent.parent):
            path.chmod(0)
        remove_untrusted(folder)
        assert not folder.exists()

    def test_odd_names_and_pipes_are_removed(self, folder: Path) -> None:
        (folder / "file\n\udcff").touch()
        os.mkfifo(folder / "pipe")
        remove_untrusted(folder)
        assert not folder.exists()

    def test_what_is_not_there_is_removed(self, tmp_path: Path) -> None:
        remove_untrusted(tmp_path / "nothing")


class TestWhereNothingConfines:
    """On a kernel with neither Landlock nor new namespaces."""

    OLD_KERNEL = (sys.executable, str(Path(__file__).with_name("old_kernel.py")))

    def test_there_is_no_level(self) -> None:
        for who in ["root", "user"] if ROOT else ["user"]:
            reasons = escape("probe", Level.LANDLOCK, who, within=self.OLD_KERNEL)
            assert "CAP_SYS_ADMIN is missing" in reasons["full"] or "namespaces" in reasons["full"]
            assert "no Landlock" in reasons["landlock"]
            assert all(reasons.values())

    @pytest.mark.parametrize("options", [(), ("--isolation", "landlock")])
    def test_grading_refuses_and_says_what_to_do(self, tmp_path: Path, options: tuple[str, ...]) -> None:
        (tmp_path / "class" / "ada").mkdir(parents=True)
        notebook = tmp_path / "class" / "ada" / "lab04_asinh.ipynb"
        untouched = (Path(__file__).parents[4] / "labs" / notebook.name).read_text("utf-8")
        notebook.write_text(untouched.replace("raise NotImplementedError()", "return 1"), "utf-8")
        command = [*self.OLD_KERNEL, sys.executable, "-m", "onnxlab.cli", "grade", str(notebook.parents[1])]
        command += ["--out", str(tmp_path / "out"), *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 2, done.stdout
        assert "no Landlock" in done.stderr
        assert "--isolation none" in done.stderr
        assert len(done.stderr.splitlines()) <= 3
        assert not (tmp_path / "out").exists()
