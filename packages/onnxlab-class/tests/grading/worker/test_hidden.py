"""What the process that runs a submission may not read."""

from onnxlab_class.grading.worker import server


def test_the_judges_and_the_solutions_of_every_copy_are_hidden(tmp_path, monkeypatch):
    installed = [tmp_path / "onnxlab" / "judges", tmp_path / "onnxlab" / "assets" / "course" / "solutions"]
    for folder in installed:
        folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)
    assert set(installed) < set(server.hidden_folders())
