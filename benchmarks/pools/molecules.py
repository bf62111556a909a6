"""Fingerprints and labels of the molecules of MOSES: a program for an environment with rdkit and molsets alone.

``python molecules.py FILE SHARE LABEL`` writes a seeded share of the 1.94 million molecules of MOSES (Polykovskiy et
al. 2020, package molsets, whose code is not run): Morgan fingerprints of radius 2 with 1,024 bits, and a label:

    QED            drug-likeness (Bickerton et al. 2012)
    penalised logP logP - synthetic accessibility - excess of the largest ring over six atoms (Gomez-Bombarelli et al.
                   2018, without its normalisation)
    rare groups    number of sulfonamides, nitriles, thiophenes and halogens
"""

import gzip
import importlib.util
import multiprocessing
import os
import sys
from pathlib import Path

import numpy as np

PARTS = ("train", "test", "test_scaffolds")
GROUPS = ("S(=O)(=O)N", "C#N", "c1ccsc1", "[F,Cl,Br]")
BITS, RADIUS = 1024, 2


def all_smiles():
    """Return the SMILES strings of all molecules, in the order of the package's files."""
    folder = Path(importlib.util.find_spec("moses").submodule_search_locations[0], "dataset", "data")
    found = []
    for part in PARTS:
        with gzip.open(folder / f"{part}.csv.gz", "rt") as file:
            next(file)  # the names of the columns
            found += [line.strip().split(",")[0] for line in file]
    return found


def described(smiles, label):
    """Return the packed fingerprints and the label of some molecules."""
    from rdkit import Chem, RDConfig, RDLogger
    from rdkit.Chem import QED, Crippen, rdFingerprintGenerator

    sys.path.append(os.path.join(RDConfig.RDContribDir, "SA_Score"))
    import sascorer

    RDLogger.DisableLog("rdApp.*")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    groups = [Chem.MolFromSmarts(each) for each in GROUPS]

    def penalised_logp(molecule):
        ring = max((len(each) for each in molecule.GetRingInfo().AtomRings()), default=0)
        return Crippen.MolLogP(molecule) - sascorer.calculateScore(molecule) - max(ring - 6, 0)

    def rare_groups(molecule):
        return sum(len(molecule.GetSubstructMatches(group)) for group in groups)

    measure = {"QED": QED.qed, "penalised logP": penalised_logp, "rare groups": rare_groups}[label]
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    bits = np.array([np.packbits(generator.GetFingerprintAsNumPy(each)) for each in molecules])
    return bits, np.array([measure(each) for each in molecules], dtype=np.float64)


def main():
    """Run the program."""
    path, share, label = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    every = all_smiles()
    chosen = np.arange(len(every))
    if share < 1:
        chosen = np.sort(np.random.default_rng(0).choice(len(every), int(len(every) * share), replace=False))
    smiles = [every[i] for i in chosen.tolist()]
    with multiprocessing.Pool() as pool:
        parts = pool.starmap(described, [(smiles[i : i + 2000], label) for i in range(0, len(smiles), 2000)], 1)
    bits, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    np.savez(path, bits=bits, values=values)
    print(f"{len(bits)} molecules in {path}")


if __name__ == "__main__":
    main()
