"""What the data sets share: tars, indices, remote files, caches, class lists."""
