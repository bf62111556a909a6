"""What a study keeps of all its runs, beside their stores: arrays over cases, policies and replicates.

The digests of the arrays are written before the arrays themselves, the present ones beside those to come, so that at
any moment each array is one of the two, or damaged. A damaged array is left out: its runs are looked at again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scalable_bandits.store.digests import digest
from scalable_bandits.store.errors import one_line
from scalable_bandits.store.layout import WHOLE, compare, group_document, notes_document
from scalable_bandits.store.locations import METADATA, Location
from scalable_bandits.store.record import is_signed, sign

RUN = tuple[int, int, int]  # numbers of the case, the policy and the replicate
UNIFORM = "uniform_regret"
MORE = "more"  # the group of all arrays but that of uniform play
SECONDS = "seconds"
PLAYS = "plays"


class Notes:
    """Regret of uniform play, seconds, series of the study's own, and how often each prior was played.

    Attributes
    ----------
    uniform
        (cases, replicates) regret of uniform play a round, in units of y; NaN where it is not known.
    seconds
        (cases, policies, replicates) that the runs took; NaN of those that are not known to be complete.
    series
        (cases, policies, replicates, horizon) by name.
    plays
        (cases, policies, replicates) by the name of the prior.
    lost
        Whether something of what was saved is damaged.

    Parameters
    ----------
    shape
        Numbers of cases, policies and replicates.
    horizon
        Rounds a run.
    """

    def __init__(self, shape: RUN, horizon: int):
        self.uniform: NDArray[Any] = np.full((shape[0], shape[2]), np.nan)
        self.seconds: NDArray[Any] = np.full(shape, np.nan)
        self.series: dict[str, NDArray[Any]] = {}
        self.plays: dict[str, NDArray[Any]] = {}
        self._horizon = horizon
        self.lost = False
        self._written: dict[str, int] = {}  # digests of what is stored, by name

    def keep(
        self, run: RUN, uniform: float, seconds: float, series: Mapping[str, Any], plays: Mapping[str, float]
    ) -> None:
        """Keep what a run gave."""
        self.uniform[run[0], run[2]] = uniform
        if not self.lost or np.isnan(self.seconds[run]):  # else the run was only looked at again
            self.seconds[run] = seconds
        for name, values in series.items():
            self.series.setdefault(name, np.full((*self.seconds.shape, self._horizon), np.nan))[run] = values
        for name, count in plays.items():
            self.plays.setdefault(name, np.full(self.seconds.shape, np.nan))[run] = count

    # ---- on disk

    def save(self, location: Location, study: str, copy: Mapping[str, Any]) -> None:
        """Write all of it into a study's group.

        Parameters
        ----------
        location
            Location of the study.
        study
            Name of the study, drawn when it was made.
        copy
            Attributes of the study, of which the array of uniform play keeps a copy.
        """
        arrays = {UNIFORM: self.uniform, SECONDS: self.seconds, **self.series}
        if self.plays:
            arrays[PLAYS] = np.array(list(self.plays.values()))
        digests = {name: digest(values) for name, values in arrays.items()}
        entries = {}
        for name, values in arrays.items():
            known = {digests[name], self._written.get(name, digests[name])}
            entries[name] = {"shape": list(values.shape), "digests": sorted(known)}
        more = sign({"study": study, "arrays": entries, "priors": list(self.plays)})
        location.put_document(MORE, group_document(more))
        for name, values in arrays.items():
            attributes = {"study": dict(copy)} if name == UNIFORM else {}
            document = notes_document(values.shape, attributes)
            if compare(location, array_path(name), document):
                location.put_document(array_path(name), document)
            location.column(array_path(name), document).with_config(WHOLE)[...] = values
        self._written = digests
        location.commit_transaction()

    def load(self, location: Location, study: str) -> list[str]:
        """Take up what was saved; tells which files are damaged, and are left out."""
        problems = self._load(location, study)
        self.lost = bool(problems)
        return problems

    def _load(self, location: Location, study: str) -> list[str]:
        file = f"{MORE}/{METADATA}"
        try:
            attributes: Any = (location.document(MORE) or {}).get("attributes")
        except ValueError as error:
            return [f"{file} is no JSON ({error})"]
        if not is_signed(attributes):
            return [f"the attributes in {file} are missing or do not match their digest"]
        if attributes.get("study") != study:
            return [f"{file} is another study's"]
        problems = []
        for name, entry in attributes["arrays"].items():
            try:
                document = notes_document(entry["shape"], {})
                values: Any = np.asarray(location.column(array_path(name), document, strict=True)[...])
            except Exception as error:  # codecs raise what they like
                problems.append(f"{array_path(name)} cannot be read ({one_line(error)})")
                continue
            found = digest(values)
            if found not in entry["digests"]:
                problems.append(f"{array_path(name)} is not what was written: its digest is another one")
                continue
            self._written[name] = found
            self._set(name, values, attributes["priors"])
        return problems

    def load_unsigned(self, location: Location) -> None:
        """Take up what was saved by version 0.1, which kept no digests."""
        group: Any = location.group()
        self._set(UNIFORM, np.asarray(group[UNIFORM][...]), ())
        if MORE in group:
            for name, array in group[MORE].arrays():
                self._set(name, np.asarray(array[...]), array.attrs.get("priors", ()))

    def _set(self, name: str, values: NDArray[Any], priors: Any) -> None:
        """Put the values of an array in their place, as far as both reach."""
        if name == PLAYS:
            for prior, counts in zip(priors, values, strict=True):
                self.plays[prior] = _copy_overlap(np.full(self.seconds.shape, np.nan), counts)
        elif name in (UNIFORM, SECONDS):
            _copy_overlap(self.uniform if name == UNIFORM else self.seconds, values)
        else:
            self.series[name] = _copy_overlap(np.full((*self.seconds.shape, self._horizon), np.nan), values)


def study_name(location: Location) -> str:
    """Name of the study that the notes in a place are of; empty if they cannot be read."""
    try:
        attributes: Any = (location.document(MORE) or {}).get("attributes")
    except ValueError:
        return ""
    return attributes["study"] if is_signed(attributes) else ""


def array_path(name: str) -> str:
    """Path of one of the arrays."""
    return name if name == UNIFORM else f"{MORE}/{name}"


def _copy_overlap(target: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    """Put values in, as far as both reach."""
    overlap = tuple(slice(min(have, want)) for have, want in zip(values.shape, target.shape, strict=True))
    target[overlap] = values[overlap]
    return target
