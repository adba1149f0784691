"""Pre-train, fine-tune, evaluate, understand and ship Vision Transformers on PyTorch Lightning.

Importing this package imports nothing heavy; take what you need from its modules, for example
`vit_lightning.models.build`, `vit_lightning.classifier.Classifier` or `vit_lightning.data.ImageDataModule`.
`vit_lightning.Predictor` is imported when it is first asked for.
"""

__version__ = "0.1.0"


def __getattr__(name: str) -> type:
    if name == "Predictor":
        from vit_lightning.predictor import Predictor

        return Predictor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
