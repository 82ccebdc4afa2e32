"""Describe the values that a setting may have. The text is derived from the models, so that it is always true."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Final, Literal, get_args, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from sluicegate.gateway.config.document import Path
from sluicegate.gateway.config.sections.security.authentication import AllowAnonymous
from sluicegate.gateway.config.sections.values import Size, format_size
from sluicegate.messaging.queues.definition import QueueDefinition

PATH: Final = "a path"
TEXT: Final = "a text"


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting at a path of the configuration."""

    path: Path  # as far as the models have it
    model: type[BaseModel]  # the section that holds it
    field: FieldInfo | None  # None: the section has no such key
    item: bool = False  # the path goes on into a list


def setting_at(root: type[BaseModel], path: Path) -> Setting:
    """Return the setting at a path, cut where the path leaves the models."""
    model, field = root, None
    for index, part in enumerate(path):
        field = model.model_fields.get(part) if isinstance(part, str) else None
        if field is None:
            return Setting(path[: index + 1], model, None)
        inner = _section_of(field.annotation)
        if index + 1 == len(path):
            return Setting(path, model, field)
        if _holds_several(field.annotation):
            if inner is None or index + 2 == len(path):
                return Setting(path[: index + 2], model, field, item=True)
            rest = setting_at(inner, path[index + 2 :])
            return Setting(path[: index + 2] + rest.path, rest.model, rest.field, item=rest.item)
        if inner is None:
            return Setting(path[: index + 1], model, field)
        model = inner
    return Setting(path, model, field)


def allowed_by(field: FieldInfo) -> str:
    """Describe the values that a setting accepts."""
    annotation = field.annotation
    low = next((each.ge for each in field.metadata if isinstance(each, Ge)), None)
    high = next((each.le for each in field.metadata if isinstance(each, Le)), None)
    section = _section_of(annotation)
    if _is_list(annotation):
        return "a list"
    if get_origin(annotation) is dict:
        return "a mapping"
    if section is not None:
        return _section_with(section)
    if _is_marked(field, AllowAnonymous):
        return "true, false or on-loopback"
    if get_origin(annotation) is Literal:
        return "one of: " + ", ".join(map(shown, get_args(annotation)))
    if annotation is bool:
        return "true or false"
    if annotation is int and isinstance(low, int) and isinstance(high, int):
        if _is_marked(field, Size):
            return f"a size from {format_size(low)} to {format_size(high)}, such as {format_size(max(low, 1 << 20))!r}"
        return f"a whole number from {low} to {high}"
    if annotation is float and isinstance(low, float) and isinstance(high, float):
        return f"a number from {low} to {high}"
    kind = PATH if FilePath in (annotation, *get_args(annotation)) else TEXT
    return kind + _text_limits(field)


def allowed_item(field: FieldInfo) -> str:
    """Describe the allowed items of a list, or values of a mapping."""
    section = _section_of(field.annotation)
    return TEXT if section is None else _section_with(section)


def is_secret(field: FieldInfo | None) -> bool:
    """Return whether a setting's value must not be shown."""
    return field is not None and SecretStr in (field.annotation, *get_args(field.annotation))


def shown(value: object) -> str:
    """Return a setting's value as text: of a list, the names of its items; of sections, their keys."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return f"[{', '.join(_called(item) for item in value)}]"
    if isinstance(value, dict) and any(isinstance(each, dict | list) for each in value.values()):  # it may have secrets
        return f"{{{', '.join(map(str, value))}}}"
    return str(value)


def _called(item: object) -> str:
    return str(getattr(item.config if isinstance(item, QueueDefinition) else item, "name", item))


def leaves(model: BaseModel) -> Iterator[tuple[str, FieldInfo, object]]:
    """Return every setting below a section with its dotted path; a list counts as one setting, an empty mapping too."""
    for name, field in type(model).model_fields.items():
        value: object = getattr(model, name)
        sections = list(_sections(name, value))
        if not sections:
            yield name, field, value
        for at, section in sections:
            for path, inner_field, inner in leaves(section):
                yield f"{at}.{path}", inner_field, inner


def _sections(name: str, value: object) -> Iterator[tuple[str, BaseModel]]:
    """Yield a section, or the sections of a mapping, each with its dotted path."""
    if isinstance(value, BaseModel):
        yield name, value
    elif isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, BaseModel):
                yield f"{name}.{key}", each


def _section_with(section: type[BaseModel]) -> str:
    return f"a mapping with some of the keys {', '.join(section.model_fields)}"


def _text_limits(field: FieldInfo) -> str:
    low = next((each.min_length for each in field.metadata if isinstance(each, MinLen)), 0)
    high = next((each.max_length for each in field.metadata if isinstance(each, MaxLen)), 0)
    pattern = next((each.pattern for each in field.metadata if getattr(each, "pattern", None)), None)
    limits = f" of {low} to {high} characters" if high else ""
    return f"{limits}{',' if limits and pattern else ''}{f' that matches {pattern}' if pattern else ''}"


def _section_of(annotation: object) -> type[BaseModel] | None:
    """Return the section of an annotation, or of the items of its list."""
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    if _holds_several(annotation):
        return _section_of(get_args(annotation)[0 if _is_list(annotation) else 1])
    return None


def _holds_several(annotation: object) -> bool:
    return _is_list(annotation) or get_origin(annotation) is dict


def _is_list(annotation: object) -> bool:
    return get_origin(annotation) is tuple


def _is_marked(field: FieldInfo, marked: object) -> bool:
    """Return whether a field is annotated with one of the marked types."""
    assert get_origin(marked) is Annotated
    return any(each is mark for mark in get_args(marked)[1:] for each in field.metadata)
