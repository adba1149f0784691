"""A run that gets SIGKILL ends with the same weights; `python -m tests.kill_and_resume` does it twenty times."""

from tests.kill_and_resume import Runs, kill, write_experiment


def test_a_run_killed_while_it_trains_ends_as_if_it_had_not_been(app, tmp_path):
    experiment = write_experiment(tmp_path, epochs=2)
    runs = Runs(tmp_path, experiment)
    assert app("fit", "-c", experiment, "--trainer.default_root_dir", "whole").code == 0
    process = runs.start("killed")
    try:
        runs.wait_for_step("killed", process, 15)
    finally:
        kill(process)
    resumed = app("fit", "-c", experiment, "--trainer.default_root_dir", "killed", "--ckpt_path", "last")
    assert resumed.code == 0, resumed.err
    assert runs.end("killed") == runs.end("whole")


def test_a_run_killed_before_its_first_checkpoint_says_to_start_anew(app, tmp_path):
    (tmp_path / "runs/default/0").mkdir(parents=True)
    done = app("fit", "--data", "Digits", "--ckpt_path", "last")
    assert done.code == 1
    assert "runs/default/0 has no whole last.ckpt" in done.err and "start anew without --ckpt_path" in done.err
