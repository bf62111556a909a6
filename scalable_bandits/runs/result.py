"""Result of `minimize` and `maximize`: the best point, every evaluation; results and tables as earlier observations."""

from __future__ import annotations

import html
import itertools
import math
import sys
from collections.abc import Collection, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import attrs
import numpy as np

from scalable_bandits import checks
from scalable_bandits.checks import Floats, showable
from scalable_bandits.formulas.hypervolume import hypervolume
from scalable_bandits.policies import Best, FrontPoint, Margin, Policy
from scalable_bandits.policies.measurements import LARGEST
from scalable_bandits.policies.outputs import DIRECTIONS, Limit, Outputs
from scalable_bandits.policies.several_objectives import SeveralObjectivesPolicy
from scalable_bandits.runs.readable import (
    Text,
    by_name,
    context_text,
    counted,
    duration_in_words,
    listed,
    parameter_text,
    places_beside,
    shown,
    with_error,
)
from scalable_bandits.runs.stopping import Measured as Measured
from scalable_bandits.runs.summary import is_ignorant, lines_of
from scalable_bandits.spaces import Mask, Space
from scalable_bandits.spaces.parameters import is_nothing
from scalable_bandits.specification import nearest
from scalable_bandits.tickets import Ticket

if TYPE_CHECKING:
    import pandas
    import xarray


MOST_ROWS = 40  # parameters in a summary
ALLOWED = (
    "a pair of points and values, a table (structured array or DataFrame) with a column for each parameter and one of "
    "values, or an earlier result"
)
VALUE_NAMES = ("value", "y")  # names of the column of values if several columns are not parameters


class Evaluation(NamedTuple):
    """One evaluation of a tuning run."""

    x: Any  # point (d,), arm number, or setting (a dict)
    value: float  # in units of y; NaN if the evaluation failed
    error: str  # error message; empty if the evaluation did not fail
    seconds: float  # duration; NaN if unknown
    outputs: Mapping[str, float] = {}  # values of the outputs besides the first objective, by name
    feasible: bool = True  # whether these keep their limits


class RecommendedSetting(dict[str, Any]):
    """Recommended setting of a named space: a dict of the parameters' values, and what it is expected to be worth.

    Parameters
    ----------
    best
        Recommendation of a policy on a named space.

    Attributes
    ----------
    x : dict
        The setting alone.
    mean, value : float
        Posterior mean, in units of y.
    std : float
        Posterior standard deviation, in units of y.
    """

    def __init__(self, best: Best):
        super().__init__(best.x)
        self.x, self.mean, self.value, self.std = dict(best.x), best.mean, best.mean, best.std


class BestPoints(NamedTuple):
    """Recommended and best measured point of a result side by side, with what they are expected to be worth, as text.

    There are no rows if nothing was measured.
    """

    heading: str  # direction, number of evaluations, what ended the run
    columns: tuple[str, ...]  # titles of the points: one if the recommended and the best measured point are the same
    rows: tuple[tuple[str, ...], ...]  # name and one cell a column: parameters, expected value, measured value


@attrs.frozen(eq=False, repr=False)
class TuningResult:
    """Result of `minimize` and `maximize`.

    It prints as a table of the recommended and the best measured point, in notebooks as an HTML table; `summary` says
    how sure they are.

    Attributes
    ----------
    recommended : Best
        Recommended point, with posterior mean and standard deviation; x is None if nothing is known yet.
    policy : Policy
        Policy after the run.
    x
        Points (n, d) of the observations in order; for `Arms` arm numbers (n,), for a `SearchSpace` a list of n dicts.
    y
        Values (n,), in units of y.
    tickets
        Tickets of the evaluations, in the order of asking.
    earlier
        Number of earlier observations (`warm_start`), which come first in x and y.
    interrupted
        Whether Ctrl-C ended the run.
    stopped_by
        Name of the rule, "seconds", or "the end of the pool", that ended the run before its budget was used; else None.
    outputs
        Values (n,) of the outputs besides the first objective (`constraints`, `objectives`), by name, in their units.
    context
        Values that the run was given and did not choose, for which the recommended and the best measured point are the
        best ones; None if all were chosen.

    Examples
    --------
    >>> import scalable_bandits as sb
    >>> space = sb.SearchSpace({"rate": sb.Real(0.0, 1.0), "depth": sb.Integer(1, 8)})
    >>> policy = sb.GPEI(space, sb.RBF(0.5), noise=0.1, regularization=0.01, candidates=64)
    >>> found = sb.maximize(lambda setting: setting["depth"] - setting["rate"], policy, budget=15)
    >>> found.best["depth"], found.measured.x["depth"], round(found.value)
    (8, 8, 8)
    >>> found.table().columns.tolist()
    ['rate', 'depth', 'value', 'error', 'seconds']
    """

    recommended: Best
    policy: Policy
    x: np.ndarray | list[dict[str, Any]]
    y: np.ndarray
    tickets: tuple[Ticket, ...] = ()
    earlier: int = 0
    interrupted: bool = False
    stopped_by: str | None = None
    outputs: Mapping[str, Floats] = attrs.Factory(dict)
    context: Mapping[Any, Any] | None = None

    def __len__(self) -> int:
        return len(self.y)

    @property
    def minimize(self) -> bool:
        """Whether smaller values are better."""
        return self.policy.minimize

    @property
    def best(self) -> Best | RecommendedSetting:
        """Recommended point: a dict on a named space; with attributes `x`, `value` (or `mean`) and `std` on any."""
        named = self.policy.space.named and self.recommended.x is not None
        return RecommendedSetting(self.recommended) if named else self.recommended

    @property
    def value(self) -> float:
        """Posterior mean at the recommended point, in units of y."""
        return self.recommended.mean

    @property
    def std(self) -> float:
        """Posterior standard deviation at the recommended point, in units of y."""
        return self.recommended.std

    @property
    def measured(self) -> Measured | None:
        """Best observation, the first of equal ones, and what is expected at its point; None without any.

        With constraints it is the best of those that keep them all, with several objectives the best by the first, in a
        context the best of those that have it.
        """
        known = self.feasible & np.isfinite(self.y)
        for name in self.objectives[1:]:
            known &= np.isfinite(self.outputs[name])
        if self.context is not None and len(self.y):
            known &= self.policy.in_context(self.policy.space.parse(cast(Any, self.x))[0], self.context)
        if not known.any():
            return None
        worst = np.inf if self.minimize else -np.inf
        values = np.where(known, self.y, worst)
        i = int(np.argmin(values) if self.minimize else np.argmax(values))
        x: Any = self.x[i]
        return Measured(x, float(self.y[i]), *self.policy.posterior(x))

    @property
    def feasible(self) -> Mask:
        """Mask (n,) of the observations that keep all constraints, by their measured values."""
        kept = np.ones(len(self.y), dtype=np.bool_)
        for name, limit in self._limits.items():
            kept &= limit.holds(self.outputs[name])
        return kept

    @property
    def _limits(self) -> Mapping[str, Limit]:
        """Limits by name of their output."""
        return {} if self.policy.outputs is None else self.policy.outputs.limits

    @property
    def constraints(self) -> list[Margin]:
        """What is believed of each constraint at the recommended point; empty without constraints."""
        return [] if self.recommended.x is None else self.policy.margins(self.recommended.x)

    @property
    def front(self) -> list[FrontPoint]:
        """Settings that no other one beats in all objectives, by the first one; ValueError for a single objective."""
        if not isinstance(self.policy, SeveralObjectivesPolicy):
            checks.refuse("front", "a run with one objective", "several, as in minimize(..., objectives=[...])")
        return self.policy.front(context=self.context)

    @property
    def objectives(self) -> list[str]:
        """Names of the objectives where there are several; else empty."""
        return list(self.directions)

    @property
    def directions(self) -> dict[str, str]:
        """Direction, "minimize" or "maximize", by objective where there are several; else empty."""
        return self.policy.directions if isinstance(self.policy, SeveralObjectivesPolicy) else {}

    @property
    def failed(self) -> list[Ticket]:
        """Tickets of the evaluations that failed in all their attempts."""
        return [ticket for ticket in self.tickets if ticket.gone]

    # ---- every evaluation

    def evaluations(self) -> list[Evaluation]:
        """Return the evaluations, also those that failed, in the order in which they ended."""
        ended = sorted((t for t in self.tickets if t.ended is not None), key=lambda ticket: ticket.ended or 0)
        seconds = [math.nan] * self.earlier + [_seconds(ticket) for ticket in ended if not ticket.gone]
        seconds += [math.nan] * (len(self.y) - len(seconds))  # a result made without tickets has no durations
        beside = [dict(zip(self.outputs, row, strict=True)) for row in zip(*self.outputs.values(), strict=True)]
        each = zip(self.x, self.y.tolist(), seconds, beside or [{}] * len(self), self.feasible.tolist(), strict=True)
        rows = [Evaluation(x, y, "", s, values, kept) for x, y, s, values, kept in each]
        for place, ticket in enumerate(ended, self.earlier):
            if ticket.gone:
                x = self.policy.space.argument(np.array(ticket.x))
                rows.insert(place, Evaluation(x, math.nan, ticket.error, _seconds(ticket), feasible=not self.outputs))
        return rows

    def table(self) -> pandas.DataFrame:
        """Return one row an evaluation, in the order in which they ended.

        Returns
        -------
        DataFrame
            A column a parameter (x0, x1, ... on spaces without names; NaN where a parameter does not exist), "value" in
            units of y (NaN where the evaluation failed), "error", and "seconds" if known; with constraints a column an
            output, and "feasible"; with several objectives a column of each in the place of "value". If a parameter or
            an output has one of these names, an underscore follows it.
        """
        import pandas

        rows, space = self.evaluations(), self.policy.space
        index = pandas.RangeIndex(1, len(rows) + 1, name="evaluation")
        names = *(["feasible"] if self._limits else []), "error", "seconds"
        more = {name: [getattr(row, name) for row in rows] for name in names}
        if not any(map(math.isfinite, more["seconds"])):
            del more["seconds"]
        first = self.objectives[0] if self.objectives else "value"
        measured = {name: [row.outputs.get(name, math.nan) for row in rows] for name in self.outputs}
        columns = parameter_columns(self._names, [by_name(space, row.x) for row in rows], index)
        columns |= beside(columns, {first: [row.value for row in rows]})
        columns |= beside(columns, measured)
        return pandas.DataFrame(columns | beside(columns, more), index)

    def history(self) -> pandas.DataFrame:
        """Return "value" and "best", the best value so far that is feasible, by evaluation, both in units of y.

        With several objectives there is "hypervolume", that of the front so far beyond the last reference point, as a
        share of that of all evaluations.
        """
        import pandas

        rows = self.evaluations()
        if isinstance(self.policy, SeveralObjectivesPolicy):
            return self._growth(rows, self.policy)
        values = np.array([row.value for row in rows])
        best = (np.fmin if self.minimize else np.fmax).accumulate(self._counted(rows))
        index = pandas.RangeIndex(1, len(values) + 1, name="evaluation")
        return pandas.DataFrame({"value": values, "best": best}, index=index)

    def _counted(self, rows: Sequence[Evaluation]) -> Floats:
        """Return the values (n,) of evaluations that may be the best one: feasible, in the context; NaN of others."""
        may = np.array([row.feasible for row in rows], dtype=np.bool_) & self.in_context(rows)
        return np.where(may, [row.value for row in rows], math.nan)

    def in_context(self, rows: Sequence[Evaluation]) -> Mask:
        """Return the mask (k,) of the evaluations that were made in the context of the run; all of a run without one.

        Parameters
        ----------
        rows
            Evaluations, such as those of `evaluations`.
        """
        if self.context is None or not rows:
            return np.ones(len(rows), dtype=np.bool_)
        points = np.concatenate([self.policy.space.parse(row.x)[0] for row in rows])
        return self.policy.in_context(points, self.context)

    def _growth(self, rows: Sequence[Evaluation], policy: SeveralObjectivesPolicy) -> pandas.DataFrame:
        """Return the hypervolume of the front so far, by evaluation, as a share of the last one."""
        import pandas

        signs = np.array([DIRECTIONS[each].SIGN for each in policy.directions.values()])
        names = list(policy.directions)[1:]
        values = [[row.value, *(row.outputs.get(name, math.nan) for name in names)] for row in rows]
        kept = np.array([row.feasible for row in rows], dtype=np.bool_)
        oriented = np.where(kept[:, None], np.array(values).reshape(-1, len(signs)) * signs, -np.inf)
        oriented[~np.isfinite(oriented).all(axis=1)] = -np.inf
        reference = policy.reference_point
        if reference is None:
            found = np.zeros(len(rows))
        else:
            last = np.array(list(reference.values())) * signs
            found = np.array([hypervolume(oriented[: i + 1], last) for i in range(len(rows))])
            found /= max(found[-1], 1e-300) if len(found) else 1.0
        index = pandas.RangeIndex(1, len(rows) + 1, name="evaluation")
        return pandas.DataFrame({"hypervolume": found}, index=index)

    @property
    def _names(self) -> tuple[str, ...]:
        """Names of the parameters, or of the coordinates."""
        return tuple(axis.name for axis in self.policy.space.axes)

    def dataset(self) -> xarray.Dataset:
        """Return the observations as xarray dataset over ``round``; of a named space with a variable a parameter.

        Returns
        -------
        Dataset
            A variable a parameter (NaN, or of a text None, where a parameter does not exist), "candidate" of a pool, or
            "x"; "y" in units of y; with several outputs a variable of each other one, and with constraints "feasible".
            If a parameter has one of these names, or is called "round", an underscore follows it. Failed evaluations
            are in `table`.
        """
        import xarray

        kept = {"feasible": self.feasible} if self._limits else {}
        along, *_ = beside(self._names, {"round": None})
        variables: dict[str, Any] = {}
        if self.policy.space.scanned and len(self._names) == 1:  # labels, or numbers, of a pool
            variables[self._names[0]] = along, np.array(self.x, dtype=object if isinstance(self.x, list) else None)
        elif isinstance(self.x, list):
            for name in self._names:
                variables[name] = along, _array(self.x, name)
        else:
            variables["x"] = (along, "dimension")[: self.x.ndim], self.x
        for columns in ({"y": self.y}, self.outputs, kept):
            variables |= {name: (along, values) for name, values in beside((*variables, along), columns).items()}
        return xarray.Dataset(variables, coords={along: np.arange(1, len(self.y) + 1)})

    # ---- as text

    def __repr__(self) -> str:
        from rich.cells import cell_len, set_cell_size

        found, encoding = best_points(self), getattr(sys.stdout, "encoding", None)
        lines = [("", *found.columns), *found.rows] if found.rows else []
        lines = [tuple(showable(cell, encoding) for cell in line) for line in lines]
        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        padded = ["  ".join(map(set_cell_size, line, widths)).rstrip() for line in lines]
        return "\n".join([f"{type(self).__name__}: {showable(found.heading, encoding)}", *padded])

    def _repr_html_(self) -> str:
        import pandas

        found = best_points(self)
        frame = pandas.DataFrame(found.rows, columns=["", *found.columns])
        styled = frame.style.hide(axis="index").format(escape="html").set_caption(html.escape(found.heading))
        styled.set_table_attributes('class="tex2jax_ignore"')  # a dollar sign in a name starts no formula
        left = "text-align: left"
        styled.set_table_styles([{"selector": "th, td", "props": left}, {"selector": "caption", "props": left}])
        return styled.to_html()

    def summary(self) -> str:
        """Say in at most ten lines what came out and how sure it is.

        What the policy's model does not know is left out; a learned one knows nothing before ten settings are measured.
        Shares of the parameters are those of `analysis.importance`, from fewer points.

        Returns
        -------
        str
            Evaluations, failures and time; the recommended setting, its expected value and the 95 % interval of the
            posterior; the best measured value; how much better another setting may be, by the bound of `RegretBelow`;
            the noise of a measurement, if it is learned; the parameters that matter; those at an end of their range;
            how many values the model predicts when they are left out.

        Examples
        --------
        >>> import scalable_bandits as sb
        >>> policy = sb.GPEI(sb.Box([[0, 1]]), sb.RBF(0.2), noise=0.01, regularization=1e-4)
        >>> found = sb.maximize(lambda x: x[0], policy, budget=5)
        >>> found.summary().splitlines()[-1]
        'At the end of its range: x0 (a wider range may be better)'
        """
        evaluations = self.evaluations()
        seconds = [t.seconds for t in self.tickets if t.ended is not None and t.seconds is not None]
        taken = f"; evaluations took {duration_in_words(math.fsum(seconds))} in all" if seconds else ""
        values = np.array([row.value for row in evaluations])
        heading = self._heading(taken)
        measured = self.measured
        number = 0 if measured is None else int(np.flatnonzero(self._counted(evaluations) == measured.y)[0]) + 1
        lines = lines_of(self.policy, self.recommended, measured, number, values, self.context)
        if not isinstance(self.policy, SeveralObjectivesPolicy):  # begins with a name otherwise
            heading = heading[0].upper() + heading[1:]
        return Text("\n".join([heading, *lines]))

    def _heading(self, taken: str = "") -> str:
        failed, better = len(self.failed), "smaller" if self.minimize else "larger"
        ended = len(self) + failed - self.earlier
        count = counted(ended, "evaluation") + (f" ({failed:,} failed)" if failed else "")
        earlier = f" after {counted(self.earlier, 'earlier observation')}" if self.earlier else ""
        rule = "" if self.stopped_by is None else f"; ended by {self.stopped_by}"
        kept = f"; {int(self.feasible.sum()):,} keep all constraints" if self._limits else ""
        if self.context is not None:
            kept += f"; where {context_text(self.context, self.policy.space)}"
        if isinstance(self.policy, SeveralObjectivesPolicy):
            better = listed([f"{name} is {way}d" for name, way in self.policy.directions.items()], MOST_ROWS)
            return f"{better}; {count}{earlier}{taken}{'; interrupted' if self.interrupted else rule}{kept}"
        return f"{better} is better; {count}{earlier}{taken}{'; interrupted' if self.interrupted else rule}{kept}"


def best_points(found: TuningResult) -> BestPoints:
    """Return recommended and best measured point of a result side by side.

    Parameters
    ----------
    found
        Result of `maximize` or `minimize`.
    """
    measured, policy, heading = found.measured, found.policy, found._heading()
    if found.recommended.x is None or not len(found):
        return BestPoints(heading, (), ())
    if isinstance(policy, SeveralObjectivesPolicy):
        return _front_points(found, policy, heading)
    points = [("recommended", *found.recommended)]
    if measured is not None:
        points.append(("best measured", measured.x, measured.value, measured.std))
        parse = policy.space.parse
        if np.array_equal(parse(points[0][1])[0], parse(points[1][1])[0]):
            points = [("recommended and best measured", *points[0][1:])]
    sure = not is_ignorant(policy)
    columns = [_cells(found, x, value, std if sure else math.nan) for _, x, value, std in points]
    limits = [f"{each.output} ({each.limit})" for each in found.constraints]
    titles = [*found._names[:MOST_ROWS], "expected value", "measured value", *limits]
    rows = [(title, *cells) for title, *cells in zip(titles, *columns, strict=True)]
    if len(found._names) > MOST_ROWS:
        rows.insert(MOST_ROWS, (f"({len(found._names) - MOST_ROWS} more)", *[""] * len(columns)))
    return BestPoints(heading, tuple(title for title, *_ in points), tuple(rows))


def _front_points(found: TuningResult, policy: SeveralObjectivesPolicy, heading: str) -> BestPoints:
    """Return the recommended point of a front, and those that are best by each objective."""
    front, space = found.front, policy.space
    columns = {"recommended": policy.measured_point(found.recommended.x)}
    for name, way in policy.directions.items() if front else ():
        best = min if way == "minimize" else max
        columns[f"{'smallest' if way == 'minimize' else 'largest'} {name}"] = best(front, key=lambda p: p.values[name])
    settings = [_setting_cells(space, point.x) for point in columns.values()]
    rows = [(axis.name, *cells) for axis, *cells in zip(space.axes[:MOST_ROWS], *settings, strict=True)]
    for name in policy.directions:
        rows.append((name, *(with_error(each.values[name], each.stds[name]) for each in columns.values())))
    for i, (name, limit) in enumerate(policy.constraints.items()):
        rows.append((f"{name} ({limit})", *(_margin_text(policy.margins(each.x)[i]) for each in columns.values())))
    note = f"{len(front):,} on the front" if front else "no setting surely keeps all constraints"
    return BestPoints(f"{heading}; {note}", tuple(columns), tuple(rows))


def _setting_cells(space: Space, x: Any) -> list[str]:
    """Return the values of the parameters at a point, "-" of those that do not exist there."""
    values = by_name(space, x)
    axes = space.axes[:MOST_ROWS]
    return [parameter_text(values[axis.name], axis) if axis.name in values else "-" for axis in axes]


def _cells(found: TuningResult, x: Any, value: float, std: float) -> list[str]:
    """Return the values of the parameters at a point, what it is expected to be worth, and what it measured."""
    space, every = found.policy.space, cast(Any, found.x)
    at = found.y[(space.parse(every)[0] == space.parse(x)[0][0]).all(axis=1)] if len(every) else found.y
    at = at[~np.isnan(at)]  # of some the objective was not measured
    repeats = f" (mean of {len(at)})" if len(at) > 1 else ""
    places = places_beside(found.y, std)
    told = shown(float(at.mean()), places=places) + repeats if len(at) else "not measured"
    margins = (_margin_text(margin) for margin in found.policy.margins(x))
    return [*_setting_cells(space, x), with_error(value, std, places), told, *margins]


def _margin_text(margin: Margin) -> str:
    """Return what is believed of a constraint at a point, with by how much its limit is missed."""
    if math.isnan(margin.mean):
        return "not measured"
    if not margin.measured:
        return f"not measured, expected {with_error(margin.mean, margin.std)}"
    missed = f", missed by {shown(margin.missed_by, 2)}" if margin.missed_by else ""
    return f"{with_error(margin.mean, margin.std)}{missed}"


def parameter_columns(
    names: Sequence[str], settings: Sequence[Mapping[str, Any]], index: pandas.Index[Any]
) -> dict[str, Any]:
    """Return the columns of parameters in a table: NaN where a parameter does not exist.

    Parameters
    ----------
    names
        Names of the parameters.
    settings
        Values by parameter, a dict a row.
    index
        Index of the table.
    """
    import pandas

    columns: dict[str, Any] = {}
    for name in names:
        values = [setting.get(name, math.nan) for setting in settings]
        kept = any(each is None for each in values)  # a value as others; pandas would make it NaN
        columns[name] = pandas.Series(values, index, dtype=object) if kept else values
    return columns


def _array(settings: Sequence[Mapping[str, Any]], name: str) -> np.ndarray:
    """Return the values (n,) of a parameter: numbers, NaN where it does not exist, or objects, None there."""
    kinds = {type(setting.get(name, math.nan)) for setting in settings}
    if kinds and (kinds <= {int, float} or kinds == {bool}):
        return np.array([setting.get(name, math.nan) for setting in settings])
    return np.array([setting.get(name) for setting in settings], dtype=object)


def beside(parameters: Collection[str], columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns that stand beside others, with an underscore after a name that one of these has.

    Parameters
    ----------
    parameters
        Names of the others, such as parameters.
    columns
        Columns by name.
    """
    found: dict[str, Any] = {}
    for name, column in columns.items():
        while name in parameters or name in found:
            name += "_"
        found[name] = column
    return found


def _seconds(ticket: Ticket) -> float:
    """Return the duration of the last call of an evaluation that has ended; NaN if unknown."""
    return math.nan if ticket.seconds is None else ticket.seconds


class Earlier(NamedTuple):
    """Earlier observations."""

    x: Any  # points (k, d), arm numbers (k,), or a list of k dicts
    y: Floats  # (k,) in units of y
    points: Floats  # (k, d) of x
    told: Any  # what a policy is told: y, or k dicts by output
    results: Sequence[Any]  # k values of further outputs, as tickets have them; None without any


def is_empty(given: Any) -> bool:
    """Return whether an earlier result, a pair of points and values, or a table has no observation, not even a row."""
    if isinstance(given, tuple | list):
        return len(given) == 2 and all(isinstance(each, Sized) and not len(each) for each in given)
    return (isinstance(given, TuningResult) or _columns(given) is not None) and not len(given)


def earlier_outputs(given: Any, space: Space, outputs: Outputs) -> Earlier:
    """Convert observations of several outputs to points and values.

    Parameters
    ----------
    given
        Pair of points and dicts of values by output, table with a column a parameter and an output, or earlier result
        with these outputs.
    space
        Space of the policy.
    outputs
        Outputs of the policy.

    Raises
    ------
    ValueError
        If what was given is of another kind, a point is not in the space, or an output is missing or no number.
    """
    if isinstance(given, TuningResult):
        own = given.policy.outputs
        first = (own.objective if own else None) or outputs.objective or "value"
        each = zip(given.y.tolist(), *(values.tolist() for values in given.outputs.values()), strict=True)
        given = given.x, [dict(zip((first, *given.outputs), row, strict=True)) for row in each]
    elif _columns(given) is not None:
        given = _output_rows(given, space, outputs)
    if not isinstance(given, tuple | list) or len(given) != 2 or isinstance(given[0], TuningResult):
        allowed = "a pair of points and dicts of values by output, a table with a column for each, or an earlier result"
        checks.refuse("warm_start", given, allowed)
    x, rows = given
    try:
        points = space.check(space.parse(x)[0])
    except ValueError as error:
        raise ValueError(f"warm_start: {error}") from None
    values, beside = outputs.split(rows, "warm_start")
    if len(values) != len(points):
        checks.refuse("warm_start", f"{len(values)} dicts of values", f"one for each of the {len(points)} points")
    return Earlier(x, values, points, rows, [outputs.recorded(row) for row in beside])


def earlier_observations(given: Any, space: Space, argument: str = "warm_start", anywhere: bool = False) -> Earlier:
    """Convert observations of another run to points and values.

    Parameters
    ----------
    given
        Pair of points and values, table with a column a parameter and one of values, or earlier result.
    space
        Space of the policy.
    argument
        Name of the argument in messages.
    anywhere
        Whether points with the coordinates of the space need not be in it.

    Raises
    ------
    ValueError
        If what was given is of another kind, a point is not in the space, or a value is not a finite number.
    """
    x: Any
    if isinstance(given, TuningResult):
        x, y = given.x, given.y
    elif isinstance(given, tuple | list) and len(given) == 2 and not isinstance(given[0], TuningResult):
        x, y = given
    elif _columns(given) is not None:
        x, y = _rows(given, space, argument)
    else:
        checks.refuse(argument, given, ALLOWED)
    try:
        points, _ = space.parse(list(x) if space.named and not isinstance(x, Mapping) else x)
        points = points if anywhere else space.check(points)
        values = np.atleast_1d(checks.finite("y", y))
    except ValueError as error:
        raise ValueError(f"{argument}: {error}") from None
    if values.shape != (len(points),):
        checks.refuse(argument, f"values of shape {values.shape}", f"one for each of the {len(points)} points")
    if np.abs(values).max() > LARGEST:
        checks.refuse(argument, f"values up to {np.abs(values).max()}", f"values up to {LARGEST:.0e} in size")
    return Earlier(x, values, points, values, [None] * len(values))


def _columns(table: Any) -> list[str] | None:
    """Return the names of a table's columns; None if it is no table."""
    if isinstance(table, np.ndarray) and table.dtype.names:
        return list(table.dtype.names)
    if hasattr(table, "columns") and hasattr(table, "to_dict"):
        return [str(name) for name in table.columns]
    return None


def _rows(table: Any, space: Space, argument: str) -> tuple[list[Any], Any]:
    """Return the settings, or a pool's candidates, in a table's rows that have a value, and the values."""
    columns, names = _columns(table) or [], _named_columns(table, space, argument)
    others = [name for name in columns if name not in names]
    known = beside(names, dict.fromkeys(VALUE_NAMES))  # as `TuningResult.table` names them beside parameters
    value = others if len(others) == 1 else [name for name in known if name in others]
    if not value:
        allowed = f"one column besides the parameters, or one named {' or '.join(map(repr, VALUE_NAMES))}"
        checks.refuse(argument, f"a table with other columns {others}", allowed)
    y = np.asarray(table[value[0]])
    measured = [each == each for each in y.tolist()]  # an evaluation that failed has NaN
    return _settings(table, space, argument, measured), y[measured]


def _output_rows(table: Any, space: Space, outputs: Outputs) -> tuple[list[Any], list[dict[str, float | None]]]:
    """Return the settings in a table's rows that have the value of an output, and the values by output."""
    columns, names = _columns(table) or [], _named_columns(table, space, "warm_start")
    wanted = beside(names, {name: name for name in (outputs.objective or VALUE_NAMES[0], *outputs.others)})
    for name in wanted:
        if name not in columns:
            checks.refuse("warm_start", f"a table without the column {name!r}", f"one; {nearest(name, columns)}")
    rows = [
        {name: None if is_nothing(value) else value for name, value in zip(wanted.values(), row, strict=True)}
        for row in zip(*(np.asarray(table[name]).tolist() for name in wanted), strict=True)
    ]
    measured = [any(value is not None for value in row.values()) for row in rows]
    return _settings(table, space, "warm_start", measured), list(itertools.compress(rows, measured))


def _named_columns(table: Any, space: Space, argument: str) -> Sequence[str]:
    """Return the names of the parameters, or "candidate" and the contexts of a pool, which are columns of a table."""
    columns = _columns(table) or []
    if not (space.scanned or space.named):
        checks.refuse(argument, f"a table with columns {columns}", "points and values: the space has no names")
    names: Sequence[str] = space.names  # type: ignore[attr-defined]
    for name in names:
        if name not in columns:
            checks.refuse(argument, f"a table without the column {name!r}", f"one; {nearest(name, columns)}")
    return names


def _settings(table: Any, space: Space, argument: str, measured: Sequence[bool]) -> list[Any]:
    """Return the settings, or a pool's candidates, in those rows of a table that have a value."""
    if not any(measured):
        checks.refuse(argument, "a table without a value", "one with at least one evaluation that did not fail")
    names = _named_columns(table, space, argument)
    rows = itertools.compress(zip(*(np.asarray(table[name]).tolist() for name in names), strict=True), measured)
    return [dict(zip(names, row, strict=True)) if space.named else row[0] for row in rows]
