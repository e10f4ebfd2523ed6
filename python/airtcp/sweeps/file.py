"""The keys of sweep files. `airtcp.sweeps.definition` checks rules that span several keys."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from msgspec import Meta, field

from airtcp.documents import Scalar, Table, Text, Unique, Version, Word, means

MAX_SEED: Final = (1 << 63) - 1
MAX_RUNS: Final = 1_000_000

Mode = Literal["grid", "list", "random"]
Scale = Literal["linear", "log"]
Engine = Literal["airtcp", "kernel"]
Runs = Annotated[int, Meta(ge=1, le=MAX_RUNS)]
Seed = Annotated[int, Meta(ge=0, le=MAX_SEED)]
Seeds = Runs | Annotated[list[Seed], Meta(min_length=1), Unique]
Factor = int | float
Source = Text | dict[str, Any]


class RangeTable(Table, kw_only=True, frozen=True):
    """A range of values, for a parameter of a random sweep."""

    from_: Annotated[int | float, means("Lower end of the range.")] = field(name="from")
    to: Annotated[int | float, means("Upper end of the range.")]
    scale: Annotated[Scale, means("Distribution of the values: even, or even in the logarithm.")] = "linear"
    whole: Annotated[bool, means("Whole numbers only, both ends included.")] = False


Axis = Scalar | Annotated[list[Scalar], Meta(min_length=1), Unique] | RangeTable


class VariantTable(Table, kw_only=True, frozen=True):
    """A variant that runs at every point."""

    name: Annotated[Text, means("Name, unique among the variants.")]
    set: Annotated[
        dict[str, Any], means("Keys of the scenario and their values. They replace those of the sweep's `set`.")
    ] = field(default_factory=dict)
    parameters: Annotated[dict[str, Scalar], means("Constants of this variant.")] = field(default_factory=dict)
    only: Annotated[
        dict[str, Scalar | list[Scalar]], means("Values of parameters at which it runs, such as `{ n = [500] }`.")
    ] = field(default_factory=dict)
    scenario: Annotated[Source | None, means("Scenario of this variant, instead of the sweep's.")] = None
    engine: Annotated[
        Engine, means("`kernel`: the ends of its flows are Linux kernels in virtual time (`airtcp shell --virtual`).")
    ] = "airtcp"
    kernel: Annotated[
        Version,
        means('With `engine = "kernel"`: a version that `tools/uml/build.py` has built. `--kernel` takes files, too.'),
    ] = "6.12"


class SharedVariants(Table, kw_only=True, frozen=True):
    """Variants of a file that several sweeps share. Use either `only` or `without`, or neither for all of them."""

    file: Annotated[
        Text, means("A file that holds `[[variants]]`, and `catalogue` if they name remedies, relative to this one.")
    ]
    only: Annotated[list[Text] | None, means("Names of the variants to take.")] = None
    without: Annotated[list[Text] | None, means("Names of the variants to leave out.")] = None


class SharedVariantTable(VariantTable, kw_only=True, frozen=True):
    """A variant of a shared file."""

    remedies: Annotated[list[Text], means("Remedies of the file's catalogue; their `set` comes first.")] = field(
        default_factory=list
    )


class VariantsFile(Table, kw_only=True, frozen=True):
    """A file of variants, which several sweeps share."""

    variants: Annotated[list[SharedVariantTable], means("The variants.")]
    catalogue: Annotated[Text | None, means("A catalogue of remedies, relative to this file.")] = None


class ColumnTable(Table, kw_only=True, frozen=True):
    """Label, unit and scale of a number."""

    label: Annotated[str, means("Label of the number.")] = ""
    unit: Annotated[str, means("Unit of the number after `scale`.")] = ""
    scale: Annotated[Factor, means("Factor from the recorded unit to `unit`. It must not be 0.")] = 1


class MeasureTable(ColumnTable, kw_only=True, frozen=True):
    """A measure of each run. Either `value` or `sql` is required."""

    value: Annotated[
        Text | None,
        means("A place in the summary: `links.NAME.KEY`, `groups.NAME.KEY` or `air.NAME.KEY`."),
    ] = None
    sql: Annotated[
        Text | None, means("A query over the tables of the run, in which `{parameter}` is a parameter's value.")
    ] = None
    columns: Annotated[
        dict[str, ColumnTable], means("Label, unit and scale of the columns of a query that gives rows.")
    ] = field(default_factory=dict)


class SizeTable(Table, kw_only=True, frozen=True):
    """Overrides for one size of the sweep."""

    parameters: Annotated[dict[str, Axis], means("Other values of these parameters.")] = field(default_factory=dict)
    set: Annotated[dict[str, Any], means("Other values of these keys of the scenario.")] = field(default_factory=dict)
    seeds: Annotated[Seeds | None, means("Seeds, instead of the sweep's.")] = None
    samples: Annotated[Runs | None, means("Number of points, instead of the sweep's.")] = None


class SweepFile(Table, kw_only=True, frozen=True):
    """A scenario, parameters that vary in it, and measures."""

    name: Annotated[Text | None, means("Name of the results. Default: the file's name.")] = None
    description: Annotated[str, means("Description of the sweep.")] = ""
    scenario: Annotated[
        Source | None,
        means(
            "A scenario file, relative to this one, or a table with a whole scenario. Required unless each variant "
            "has one."
        ),
    ] = None
    seeds: Annotated[
        Seeds, means("Number of seeds for each point: `5` gives the seeds 1 to 5. Or a list of seeds, as `[1, 7]`.")
    ] = 1
    mode: Annotated[
        Mode,
        means(
            "`grid`: every combination of the parameters' values. `list`: the first values of all lists, then the "
            "second, and so on. `random`: `samples` points, drawn at random."
        ),
    ] = "grid"
    samples: Annotated[Runs | None, means("Number of points of a random sweep. Required if `mode` is `random`.")] = None
    sample_seed: Annotated[Seed, means("Seed of the points of a random sweep.")] = 1
    parameters: Annotated[
        dict[str, Axis],
        means(
            "A list is varied, a single value is a constant, a range is for a random sweep. A parameter that no "
            "expression uses must be a place of the scenario."
        ),
    ] = field(default_factory=dict)
    set: Annotated[
        dict[str, Any],
        means("Places of the scenario and their values, with expressions of the parameters in braces."),
    ] = field(default_factory=dict)
    variants: Annotated[
        list[VariantTable] | Text | SharedVariants,
        means("Named variants, `[[variants]]`; or a file of variants, or some of its variants."),
    ] = field(default_factory=list)
    measures: Annotated[
        dict[Word, Text | MeasureTable],
        means("Measures of each run, by name: a place in the summary, or a table."),
    ]
    quick: Annotated[SizeTable | None, means("Overrides for `--quick`.")] = None
    full: Annotated[SizeTable | None, means("Overrides for `--full`, for studies.")] = None
