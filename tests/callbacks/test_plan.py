"""What the plan says of a run's recipe."""

TINY = ("--model.net.variant", "mu/8", "--trainer.accelerator", "cpu", "--data", "Synthetic")
SMALL = ("--data.train_size", 32, "--data.eval_size", 8, "--data.batch_size", 16, "--data.num_workers", 0)
FIT = ("fit", *TINY, *SMALL)


def line(out: str, word: str) -> str | None:
    return next((text.partition(" ")[2].strip() for text in out.splitlines() if text.startswith(word)), None)


def test_the_plan_names_device_loss_and_decay(app):
    done = app(*FIT, "--model.label_smoothing", 0.1, "--model.optim.name", "adamw", "--model.optim.weight_decay", 0.05)
    assert done.code == 0, done.err
    assert line(done.out, "device") == "cpu, precision 32-true"
    assert line(done.out, "loss") == "softmax cross-entropy, label smoothing 0.1"
    assert line(done.out, "decay").startswith("0.05 on kernels (")
    assert line(done.out, "warning") is None


def test_masked_patches_say_what_they_predict(app):
    done = app(*FIT, "--model", "MaskedPatch", "--model.target", "pixels", "--trainer.fast_dev_run", "true")
    assert done.code == 0, done.err
    assert line(done.out, "loss") == "mean squared error of pixels"


def test_the_plan_names_the_run_folder_beside_a_logger_of_one_s_own(app):
    done = app(*FIT, "--trainer.logger", "CSVLogger", "--trainer.logger.save_dir", "elsewhere")
    assert done.code == 0, done.err
    assert line(done.out, "run").endswith("runs/default/0")
