"""Fingerprints and labels of the molecules of MOSES: a program for an environment with rdkit and molsets alone.

``python molecules.py FILE [SHARE]`` writes a seeded share (.1) of the 1.94 million molecules of MOSES (Polykovskiy et
al. 2020, package molsets, whose code is not run): Morgan fingerprints of radius 2 with 1,024 bits, and three labels:

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


def described(smiles):
    """Return the packed fingerprints and the labels of some molecules."""
    from rdkit import Chem, RDConfig, RDLogger
    from rdkit.Chem import QED, Crippen, rdFingerprintGenerator

    sys.path.append(os.path.join(RDConfig.RDContribDir, "SA_Score"))
    import sascorer

    RDLogger.DisableLog("rdApp.*")
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=BITS)
    groups = [Chem.MolFromSmarts(each) for each in GROUPS]
    bits, labels = np.empty((len(smiles), BITS // 8), dtype=np.uint8), np.empty((len(smiles), 3))
    for i, text in enumerate(smiles):
        molecule = Chem.MolFromSmiles(text)
        bits[i] = np.packbits(generator.GetFingerprintAsNumPy(molecule))
        ring = max((len(each) for each in molecule.GetRingInfo().AtomRings()), default=0)
        labels[i] = (
            QED.qed(molecule),
            Crippen.MolLogP(molecule) - sascorer.calculateScore(molecule) - max(ring - 6, 0),
            sum(len(molecule.GetSubstructMatches(group)) for group in groups),
        )
    return bits, labels


def main():
    """Run the program."""
    path, share = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
    every = all_smiles()
    chosen = np.arange(len(every))
    if share < 1:
        chosen = np.sort(np.random.default_rng(0).choice(len(every), int(len(every) * share), replace=False))
    smiles = [every[i] for i in chosen.tolist()]
    with multiprocessing.Pool() as pool:
        parts = pool.map(described, [smiles[i : i + 2000] for i in range(0, len(smiles), 2000)], chunksize=1)
    bits, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    np.savez(path, bits=bits, labels=labels, smiles=np.array(smiles))
    print(f"{len(bits)} molecules in {path}")


if __name__ == "__main__":
    main()
