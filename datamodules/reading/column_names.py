"""What columns of paths and of labels are called; the first of each is the documented one."""

PATH_COLUMNS = ("path", "file_name", "filename", "image", "img")
PERSON_COLUMNS = ("patient", "subject", "participant")
"""Columns that name whom an image shows, also with "id" behind it."""
GROUP_COLUMNS = (
    *("lesion", "slide", "case", "specimen", "donor", "study", "exam", "person", "individual", "animal"),
    *("sequence", "seq", "burst", "video", "camera", "location"),
)
"""Columns that may name what several images show, by their cells; also with "id" behind it."""
LABEL_COLUMNS = ("label", "labels", "fine_label", "choice")
UNLABELLED_COLUMNS = ("unlabeled", "unlabelled", "_unlabeled")
"""Columns in small letters of a table with a column for each class that say that an image has not got its label."""
