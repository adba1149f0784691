"""Datamodules that come with vit_lightning, registered in the same entry-point group as anybody else's."""
