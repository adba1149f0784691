"""Pre-train, fine-tune, evaluate, understand and ship Vision Transformers on PyTorch Lightning.

Importing this package imports nothing heavy; take what you need from its modules, for example
`vit_lightning.models.build`, `vit_lightning.classifier.Classifier` or `vit_lightning.data.ImageDataModule`.
"""

__version__ = "0.1.0"
