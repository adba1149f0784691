"""Samples of a WebDataset tar: which of its files belong together, which is the image, and which says the class."""

import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from datamodules.reading import strict_json
from datamodules.reading.damaged_files import reason
from datamodules.reading.image_files import ENDINGS
from datamodules.reading.label_text import (
    IF_A_NAME,
    LabelKinds,
    check_name,
    is_whole,
    likeness,
    names_a_list,
    nested,
    plain_text,
    refuse_vector,
    text_lines,
    whole_number,
)
from vit_lightning.errors import InputError, listing

META = re.compile(r"__[^/]*__($|/)")
"""Names of files about a tar as a whole, as the webdataset library tells them."""
LARGEST_LABEL = 2**26
"""Bytes that a file with a class may have."""


class Sample(NamedTuple):
    """One sample of a tar."""

    key: str
    start: int
    """Where the image's bytes begin in the tar."""
    size: int
    labels: tuple[str, ...] | None
    """None: they are not told."""
    called: str | None = None
    """What the .json calls a number in the .cls, if it does."""


@dataclass
class SampleForm:
    """How the samples of a set are made up.

    Args:
        label_field: field of the .json files with the class.
        image_part: ending of the file with the image; None: the only one that is an image's.
        label_part: ending of the file with the class; None: .cls, else .json.
        multi_label: whether a sample may have several classes, or none.
        may_lack_labels: whether samples may have no file or field with the class, as those of a test may.
        lists: names of classes that are called as lists are.
    """

    label_field: str = "label"
    image_part: str | None = None
    label_part: str | None = None
    multi_label: bool = False
    may_lack_labels: bool = False
    lists: tuple[str, ...] = ()
    _kinds: LabelKinds = field(default_factory=LabelKinds, init=False, repr=False)
    _beside: set[str] = field(default_factory=set, init=False, repr=False)
    """Endings such as depth.png of files that stood beside an image."""
    _taken: set[str] = field(default_factory=set, init=False, repr=False)
    """Endings such as input.jpg of files that were the image."""

    def image(self, parts: Mapping[str, Any]) -> str | None:
        """Return the ending of a sample's image, None if there is none.

        Raises:
            ValueError: if it may be one or another, here or in another sample.
        """
        if self.image_part is not None:
            return _only([ending for ending in parts if ending == self.image_part.lower().lstrip(".")], "image")
        images = [ending for ending in parts if f".{ending}".endswith(ENDINGS)]
        chosen = _only([ending for ending in images if f".{ending}" in ENDINGS] or images, "image")
        self._beside |= {ending for ending in images if ending != chosen}
        if chosen is not None and f".{chosen}" not in ENDINGS:
            self._taken.add(chosen)
        if doubtful := self._beside & self._taken:
            raise ValueError(
                f"has .{min(doubtful)}, which is the only image of some samples and stands beside the image of others; "
                "give --data.image_part"
            )
        return chosen

    def label(self, parts: Mapping[str, Any]) -> str | None:
        """Return the ending of the file that holds the class, None if there is none.

        Raises:
            ValueError: if it may be one or another.
        """
        if self.label_part is not None:
            return _only([ending for ending in parts if ending == self.label_part.lower().lstrip(".")], "label")
        for kind in ("cls", "json"):
            found = [kind] if kind in parts else [ending for ending in parts if ending.endswith(f".{kind}")]
            if found:
                return _only(found, "label")
        return None

    def names(self, ending: str, data: bytes) -> tuple[str, ...] | None:
        """Return the classes that a file names, None if it is silent about them.

        Raises:
            ValueError: saying what is wrong with it.
        """
        if not f".{ending}".endswith(".json"):
            lines = [line.strip() for line in text_lines(data.decode("utf-8-sig")) if line.strip()]
            return self._checked(
                [_line(line, ending, self.lists) for line in lines], f".{ending} holds {len(lines)} lines"
            )
        try:
            content = strict_json.loads(data)
        except (ValueError, RecursionError) as error:
            raise UnicodeError(error) from error  # of those that say what is wrong, this one is of the file
        value = content.get(self.label_field) if isinstance(content, dict) else None
        if value is None:
            return None
        values = value if isinstance(value, list) else [value]
        where = f"the field {self.label_field!r} of .{ending} holds"
        names = [_name(one, where, self._kinds, self.lists) for one in values]
        if isinstance(value, list) and any(isinstance(one, bool) for one in values):
            raise ValueError(f"has no class: {where} {value!r:.80}, expected the names or the numbers of classes")
        return self._checked(names, f"{where} a list of {len(values)}")

    def check_field(self, names: Sequence[str], data: bytes) -> str | None:
        """Refuse classes that the field of a .json contradicts: other names, or other numbers.

        Returns the name that the field has beside one number.

        Args:
            names: those that a .cls names.
            data: the content of the .json, which may hold anything.

        Raises:
            ValueError: naming both.
        """
        try:
            content = json.loads(data)
            value = content.get(self.label_field) if isinstance(content, dict) else None
            others = list(map(plain_text, value if isinstance(value, list) else [value]))
        except (ValueError, RecursionError):
            return None
        numbers = [set(map(is_whole, some)) for some in (names, others)]
        same = {likeness(whole_number(name)) for name in names} == {likeness(whole_number(other)) for other in others}
        if any(others) and not same and numbers[0] == numbers[1]:
            raise ValueError(
                f"has the class {' and '.join(names)!r:.60} in .cls and {value!r:.60} in the field "
                f"{self.label_field!r} of .json; correct one, or give --data.label_part cls or json"
            )
        return others[0] if numbers == [{True}, {False}] and len(names) == len(others) == 1 else None

    def _checked(self, names: Sequence[str], what: str) -> tuple[str, ...]:
        if len(names) != 1 and not self.multi_label:
            raise ValueError(f"has no single class: {what}; give --data.multi_label true for several or none")
        try:
            refuse_vector(names)
        except ValueError as error:
            raise ValueError(f"has {error} in its label") from error
        return tuple(dict.fromkeys(names))


def samples(file: BinaryIO, url: str, form: SampleForm) -> Iterator[Sample]:
    """Yield the samples of a tar, in its order.

    Raises:
        InputError: if it is damaged, or a sample has no image or no class, or may have one or another.
    """
    try:
        with tarfile.TarFile(fileobj=file) as tar:
            key, parts = None, {}
            for member in tar:
                if not (found := _split(member)):
                    continue
                name, ending = found
                if name != key:
                    if key is not None:
                        yield _sample(key, parts, tar, url, form)
                    key, parts = name, {}
                if ending in parts:
                    raise InputError(f"{url}: sample {key[-80:]} has two files .{ending[-80:]}; pack each only once")
                parts[ending] = member
            file.seek(tar.offset)
            if file.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:  # where tarfile just stops
                raise tarfile.ReadError(f"it has no end mark at byte {tar.offset}")
            if key is not None:
                yield _sample(key, parts, tar, url, form)
    except tarfile.TarError as error:
        raise InputError(f"{url} cannot be read as a tar ({error}); fetch it again if it is incomplete") from error


def _split(member: tarfile.TarInfo) -> tuple[str, str] | None:
    """Return a file's sample and its ending, which begins after the first dot; None for what belongs to no sample."""
    name = member.name.removeprefix("./")
    folder, slash, base = name.rpartition("/")
    stem, dot, ending = base.partition(".")
    if not member.isfile() or META.match(name) or not stem or not dot:
        return None
    return f"{folder}{slash}{stem}", ending.lower()


def _sample(key: str, parts: Mapping[str, tarfile.TarInfo], tar: tarfile.TarFile, url: str, form: SampleForm) -> Sample:
    called: str | None = None
    try:
        image, label = form.image(parts), form.label(parts)
        names = form.names(label, _content(parts[label], tar)) if label else None
        if names and label == "cls" and form.label_part is None and "json" in parts:
            called = form.check_field(names, _content(parts["json"], tar))
    except (ValueError, RecursionError) as error:
        said = str(error) if type(error) is ValueError else f"has a damaged .{label} ({reason(error)}); pack it anew"
        raise InputError(f"{url}: sample {key[-80:]} {said}") from error
    if image is None or (names is None and not form.may_lack_labels):
        raise InputError(
            f"{url}: sample {key[-80:]} has no {_lacks(image, form)}, but {_named(parts)}{_why(key, parts, tar, image)}"
        )
    if parts[image].issparse():
        raise InputError(f"{url}: sample {key[-80:]} is stored as a sparse file; pack the tar without --sparse")
    return Sample(key, parts[image].offset_data, parts[image].size, names, called)


def _content(member: tarfile.TarInfo, tar: tarfile.TarFile) -> bytes:
    if member.size > LARGEST_LABEL:
        raise ValueError(f"has {member.size:,} bytes in {member.name[-80:]}, more than a class needs")
    return tar.extractfile(member).read()


def _lacks(image: str | None, form: SampleForm) -> str:
    if image is None:
        return f".{form.image_part.lstrip('.')}" if form.image_part else "image"
    if form.label_part and not form.label_part.endswith("json"):
        return f".{form.label_part.lstrip('.')}"
    place = "a .cls or in the field" if form.label_part is None else "the field"
    return f"class in {place} {form.label_field!r} of a .json"


def _why(key: str, parts: Mapping[str, tarfile.TarInfo], tar: tarfile.TarFile, image: str | None) -> str:
    """Say what is likely behind a sample that lacks a file."""
    last = max(member.offset for member in parts.values())
    if any((found := _split(member)) and found[0] == key and member.offset > last for member in tar.getmembers()):
        return (
            "; its other files lie further on: pack the files of a sample next to each other, as tar --sort=name does"
        )
    return "; give --data.label_part txt if that is the class" if image and "txt" in parts else ""


def _only(endings: Sequence[str], what: str) -> str | None:
    if len(endings) > 1:
        raise ValueError(
            f"has several {what} files, {_named(endings)}; give --data.{what}_part with the right one; if these are "
            "several samples, take the dots out of their names: a sample's name ends at its first dot"
        )
    return endings[0] if endings else None


def _named(endings: Sequence[str] | Mapping[str, Any]) -> str:
    return listing(f".{ending}" for ending in endings)


def _line(line: str, ending: str, lists: Sequence[str]) -> str:
    """Return the class that a line of a text file names."""
    try:
        if line in lists or nested(line) is None:
            return check_name(line)
    except ValueError as error:
        raise ValueError(f"has no class: .{ending} holds {line!r:.80}, expected a name or a whole number") from error
    raise ValueError(
        f"has no class: .{ending} holds the list or object {line!r:.80}; write one name a line{_fix(line)}"
    )


def _fix(text: str) -> str:
    return f"; {IF_A_NAME}" if names_a_list(text) else ""


def _name(value: Any, where: str, kinds: LabelKinds, lists: Sequence[str]) -> str:
    """Return the class that a value of a .json names."""
    fraction = isinstance(value, float) and not value.is_integer()
    try:
        plain = not isinstance(value, str) or value.strip() in lists or nested(value.strip()) is None
        kinds.check(value)
        if plain and not fraction and (name := plain_text(value)):
            return name
    except ValueError as error:
        raise ValueError(f"has no class: {where} {str(error).rstrip(',')}") from error
    fix = _fix(value.strip()) if isinstance(value, str) else ""
    raise ValueError(f"has no class: {where} {value!r:.80}, expected a name or a whole number{fix}")
