"""Frames and episodes as Parquet tables, with images as PNG files in them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.data.lerobot.features import ALWAYS, Feature
from rlstack.data.lerobot.statistics import Statistics
from rlstack.errors import UserError
from rlstack.libraries import import_library

MOST_FRAMES = 512
"""Frames in a row group, the least that is read at once."""

UNREADABLE = (OSError, ValueError, TypeError, LookupError, ArithmeticError, NotImplementedError, MemoryError)
"""What PyArrow raises on damaged files."""

_TASK = "__index_level_0__"
"""The column that pandas, with which LeRobot reads the tasks, takes as an index without a name."""


def to_png(image: np.ndarray) -> bytes:
    """Return an image, uint8 (height, width, 3), as a PNG file."""
    file = io.BytesIO()
    import_library("PIL.Image", "data").fromarray(image).save(file, format="PNG", compress_level=1)
    return file.getvalue()


def from_png(data: bytes | None, feature: Feature, what: str) -> np.ndarray:
    """Return the image in a PNG file, uint8 (height, width, 3).

    Raises:
        UserError: It cannot be decoded, or has another size.
    """
    pillow = import_library("PIL.Image", "data")
    try:
        with pillow.open(io.BytesIO(data or b"")) as file:
            image = np.asarray(file.convert("RGB"))
    except Exception as error:  # Pillow's decoders raise errors of any kind
        raise UserError(f"{what} is not an image ({error}): the dataset is damaged there.") from error
    if image.shape[:2] != feature.shape[:2]:
        raise UserError(f"{what} has {image.shape[:2]} pixels instead of {feature.shape[:2]}.")
    return image


def frames_table(columns: Mapping[str, Any], features: Mapping[str, Feature]) -> Any:
    """Return an episode's frames as a PyArrow table.

    Args:
        columns: By feature, also those of ``ALWAYS``: arrays (frames, ...), or for images a list of PNG files.
        features: The dataset's features, without ``ALWAYS``.
    """
    arrow = import_library("pyarrow", "data")
    every = tabled(features)
    arrays = []
    for name, feature in every.items():
        column = columns[name]
        if feature.is_image:
            named = [{"bytes": png, "path": f"frame-{number:06d}.png"} for number, png in enumerate(column)]
            arrays.append(arrow.array(named, _type(feature)))
        elif feature.shape == (1,):
            arrays.append(arrow.array(np.asarray(column).reshape(-1), _type(feature)))
        else:
            flat = arrow.array(np.asarray(column).reshape(-1))
            arrays.append(arrow.FixedSizeListArray.from_arrays(flat, type=_type(feature)))
    return arrow.Table.from_arrays(arrays, schema=frames_schema(features))


def tabled(features: Mapping[str, Feature]) -> dict[str, Feature]:
    """Return the features in the table: all but videos, and those of ``ALWAYS``."""
    return {name: feature for name, feature in {**features, **ALWAYS}.items() if not feature.is_video}


def frames_schema(features: Mapping[str, Feature]) -> Any:
    """Return the columns of a table of frames, as a PyArrow schema."""
    arrow = import_library("pyarrow", "data")
    every = tabled(features)
    fields = [arrow.field(name, _type(feature)) for name, feature in every.items()]
    described = {"info": {"features": {name: _described(feature) for name, feature in every.items()}}}
    return arrow.schema(fields, {"huggingface": json.dumps(described)})


def column_values(column: Any, name: str, feature: Feature, where: str) -> np.ndarray:
    """Return a column of frames as an array (frames, ...); images are decoded.

    Raises:
        UserError: It does not fit the feature.
    """
    try:
        if feature.is_image:
            return _decoded(column, name, feature, where)
        if feature.dtype == "string":
            return np.array(column.to_pylist(), dtype=object)
        arrow = import_library("pyarrow", "data")
        values = column.combine_chunks()
        while arrow.types.is_nested(values.type):
            values = values.flatten()
        plain = values.to_numpy(zero_copy_only=False).astype(feature.dtype, copy=False)
        return plain.reshape(len(column), *feature.shape)
    except UNREADABLE as error:
        raise UserError(f"{where}: '{name}' does not fit meta/info.json ({error}): the dataset is damaged.") from error


def _decoded(column: Any, name: str, feature: Feature, where: str) -> np.ndarray:
    found = np.empty((len(column), *feature.shape), np.uint8)
    for number, cell in enumerate(column):
        data = cell["bytes"].as_py() if cell.is_valid else None
        found[number] = from_png(data, feature, f"{where}: '{name}' of row {number}")
    return found


def episode_row(place: Mapping[str, Any], statistics: Mapping[str, Statistics]) -> dict[str, Any]:
    """Return an episode's row of ``meta/episodes``: its location and statistics."""
    flat = {f"stats/{name}/{kind}": v.tolist() for name, found in statistics.items() for kind, v in found.items()}
    return {**place, **flat}


def row_statistics(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Statistics]]:
    """Return the statistics in rows of ``meta/episodes``, by feature."""
    found = []
    for row in rows:
        one: dict[str, Statistics] = {}
        for column, value in row.items():
            if column.startswith("stats/") and value is not None:
                name, kind = column.removeprefix("stats/").rsplit("/", 1)
                one.setdefault(name, {})[kind] = np.asarray(value)
        found.append(one)
    return found


def tasks_table(tasks: Sequence[str]) -> Any:
    """Return the tasks, in the order of their numbers, as LeRobot's pandas table with the tasks as its index."""
    arrow = import_library("pyarrow", "data")
    columns: list[dict[str, Any]] = [
        {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"},
        {"name": None, "field_name": _TASK, "pandas_type": "unicode", "numpy_type": "object"},
    ]
    described = {
        "index_columns": [_TASK],
        "column_indexes": [{"name": None, "field_name": None, "pandas_type": "unicode", "numpy_type": "object"}],
        "columns": [{**column, "metadata": None} for column in columns],
        "creator": {"library": "pyarrow", "version": arrow.__version__},
        "pandas_version": "2.0.0",
    }
    schema = arrow.schema([("task_index", arrow.int64()), (_TASK, arrow.string())], {"pandas": json.dumps(described)})
    return arrow.Table.from_pydict({"task_index": list(range(len(tasks))), _TASK: list(tasks)}, schema=schema)


def read_tasks(path: Path) -> list[str]:
    """Return the tasks of ``meta/tasks.parquet`` in the order of their numbers; none if the file is missing.

    Raises:
        UserError: It is damaged.
    """
    if not path.exists():
        return []
    table = read_table(path)
    names = [name for name in table.column_names if name != "task_index"]
    if len(names) != 1 or "task_index" not in table.column_names:
        raise UserError(f"{path} has the columns {table.column_names} instead of a task and its task_index.")
    numbered = dict(zip(table["task_index"].to_pylist(), table[names[0]].to_pylist()))
    if numbered.keys() != set(range(len(table))):
        raise UserError(f"{path} does not number its tasks from 0.")
    return [str(numbered[number]) for number in range(len(table))]


def to_bytes(tables: Sequence[Any]) -> bytes:
    """Return tables with the same columns as a Parquet file, each as a row group."""
    arrow, parquet = import_library("pyarrow", "data"), import_library("pyarrow.parquet", "data")
    file = arrow.BufferOutputStream()
    with parquet.ParquetWriter(file, tables[0].schema, compression="snappy", write_page_checksum=True) as writer:
        for table in tables:
            writer.write_table(table, row_group_size=MOST_FRAMES)
    return file.getvalue().to_pybytes()


def rows_to_bytes(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows of ``meta/episodes`` as a Parquet file."""
    arrow = import_library("pyarrow", "data")
    return to_bytes([arrow.Table.from_pylist(list(rows))])


def groups_to_bytes(groups: Iterable[Sequence[Mapping[str, Any]]]) -> tuple[int, bytes]:
    """Return the number of rows in all groups, and these as a Parquet file with a row group for each.

    A column that one group lacks, or in which it has nothing, is empty there. Only one group is in memory as rows.
    """
    arrow, parquet = import_library("pyarrow", "data"), import_library("pyarrow.parquet", "data")
    tables = []
    for rows in groups:
        table = arrow.Table.from_pylist(list(rows))
        texts = [k for k, kind in enumerate(table.schema.types) if arrow.types.is_string(kind)]
        for k in texts:  # texts repeat in every row of a group
            table = table.set_column(k, table.schema.names[k], table.column(k).dictionary_encode())
        tables.append(table)
    plain = [
        arrow.schema([(field.name, getattr(field.type, "value_type", field.type)) for field in table.schema])
        for table in tables
    ]
    schema = arrow.unify_schemas(plain, promote_options="permissive")
    file = arrow.BufferOutputStream()
    with parquet.ParquetWriter(file, schema, compression="snappy", write_page_checksum=True) as writer:
        for table in tables:
            lacking = [name for name in schema.names if name not in table.schema.names]
            for name in lacking:
                table = table.append_column(name, arrow.nulls(table.num_rows))
            writer.write_table(table.select(schema.names).cast(schema), row_group_size=MOST_FRAMES)
    return sum(table.num_rows for table in tables), file.getvalue().to_pybytes()


def read_table(path: Path, columns: Sequence[str] | None = None) -> Any:
    """Return a Parquet file's table, or some of its columns.

    Raises:
        UserError: It cannot be read.
    """
    parquet = import_library("pyarrow.parquet", "data")
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            table = file.read(columns=None if columns is None else list(columns))
            if missing := set(columns or ()) - set(table.column_names):
                raise KeyError(f"it has no column {', '.join(sorted(missing))}")
            return table
    except UNREADABLE as error:
        raise damaged(path, error) from error


def count_rows(path: Path) -> int:
    """Return the number of rows of a Parquet file, or -1 if it is missing or cut off."""
    parquet = import_library("pyarrow.parquet", "data")
    try:
        return parquet.read_metadata(path).num_rows
    except UNREADABLE:
        return -1


def read_rows(path: Path, start: int, stop: int, columns: Sequence[str]) -> Any:
    """Return rows ``start`` to ``stop`` - 1 of a Parquet file, reading only their row groups.

    Raises:
        UserError: It cannot be read, or is too short.
    """
    parquet = import_library("pyarrow.parquet", "data")
    try:
        with parquet.ParquetFile(path, memory_map=True, page_checksum_verification=True) as file:
            ends = np.cumsum([file.metadata.row_group(n).num_rows for n in range(file.metadata.num_row_groups)])
            if not len(ends) or ends[-1] < stop:
                raise ValueError(f"it has no row {stop - 1}")
            groups = np.flatnonzero((ends > start) & (np.append(0, ends[:-1]) < stop)).tolist()
            before = int(ends[groups[0] - 1]) if groups and groups[0] else 0
            table = file.read_row_groups(groups, columns=list(columns))
            if missing := set(columns) - set(table.column_names):
                raise KeyError(f"it has no column {', '.join(sorted(missing))}")
            return table.slice(start - before, stop - start)
    except UNREADABLE as error:
        raise damaged(path, error) from error


def damaged(path: Path, error: Exception) -> UserError:
    """Return the error for a Parquet file that cannot be read."""
    return UserError(f"{path} cannot be read ({type(error).__name__}: {error}): the dataset is damaged; copy it again.")


def _type(feature: Feature) -> Any:
    arrow = import_library("pyarrow", "data")
    if feature.is_image:
        return arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])
    value = arrow.bool_() if feature.dtype == "bool" else arrow.from_numpy_dtype(np.dtype(feature.dtype))
    return value if feature.shape == (1,) else arrow.list_(value, feature.shape[0])


def _described(feature: Feature) -> dict[str, Any]:
    """Return the feature as in a table's description by ``datasets``, LeRobot's library."""
    value = {"dtype": feature.dtype, "_type": "Value"}
    if feature.is_image:
        return {"_type": "Image"}
    return value if feature.shape == (1,) else {"feature": value, "length": feature.shape[0], "_type": "Sequence"}
