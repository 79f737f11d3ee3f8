"""Codes that compute, not learn: molecular dynamics, materials, fluids, climate, and what saves processes."""

from layouts.real.contents import arrays, binary, made, sample, sample_tree, snapshot
from layouts.real.layout import ANY, NOTHING, Layout, Only, Save, fixed, state, unread

GROMACS = "gromacs/gromacs: src/gromacs/mdlib/mdoutf.cpp, src/gromacs/fileio/checkpoint.cpp"
LAMMPS = "docs.lammps.org: restart, write_restart, read_restart"
CPT = sample("gromacs/state_step6700.cpt", ((6700).to_bytes(8, "big"), lambda n: n.s.to_bytes(8, "big")))
RESTART = sample("lammps/melt.600.rst", ((600).to_bytes(8, "little"), lambda n: n.s.to_bytes(8, "little")))
STEPS = tuple(Save(s=5000 * (i + 1), i=i) for i in range(3))
BASE = sample(
    "lammps/ranks/final.base.rst",
    (b"\5\0\0\0" + (20).to_bytes(8, "little"), lambda n: b"\5\0\0\0" + n.s.to_bytes(8, "little")),
)
CP2K = sample("cp2k-restart/h2-1_10.restart", (b"STEP_START_VAL  10", lambda n: f"STEP_START_VAL  {n.s}".encode()))
COORDINATES = (1).to_bytes(4, "little") + bytes(range(24))  # one atom
XSC = "# NAMD extended system configuration restart file\n#$LABELS step a_x\n<s> 10 0 0 0 10 0 0 0 10 0 0 0\n"
FOAM_CASE = {"system/controlDict": "application icoFoam;\n", "constant/transportProperties": "nu 0.01;\n"}


def rank(save):
    """The file of one process: of three, whichever it is."""
    return (sample(f"lammps/ranks/final.{save.r}.rst"))(save)


def foam(save):
    """One time of a case, the sample's 0.4 under another name and index."""
    told = ((b'"0.4"', lambda n: f'"0.{n.e}"'.encode()), (b"80;", lambda n: f"{n.s};".encode()))
    return sample_tree("openfoam/case/0.4", *told)(save)


def text(*lines):
    return "".join(f"{line}\n" for line in lines)


ROWS = (
    Layout(
        name="GROMACS",
        source=GROMACS,
        sets=(fixed({"state.cpt": CPT}), fixed({"state_prev.cpt": CPT})),
        beside={"traj.xtc": binary("xtc"), "ener.edr": binary("edr"), "md.log": "Step\n", "topol.tpr": binary("tpr")},
        saves=STEPS,
    ),
    Layout(
        name="GROMACS, -cpnum",
        source=f"{GROMACS}; docs/user-guide/managing-simulations.rst",
        sets=(state({"state_step<s>.cpt": CPT}, "s"),),
        beside={"traj.part0002.xtc": binary("xtc"), "md.part0002.log": "Step\n"},
        saves=STEPS,
    ),
    Layout(
        name="LAMMPS, a file for each step",
        source=LAMMPS,
        sets=(state({"melt.<s>.restart": RESTART}, "s"),),
        beside={
            "dump.<s>.lammpstrj": "ITEM: TIMESTEP\n<s>\n",
            "log.lammps": "LAMMPS (29 Sep 2021)\n",
            "in.melt": "run 1\n",
        },
        saves=STEPS,
    ),
    Layout(
        name="LAMMPS, two files in turn",
        source=LAMMPS,
        sets=(
            fixed({"restart.a": Only(0, RESTART)}, why="two names in turn: both are needed until both are whole"),
            fixed({"restart.b": Only(1, RESTART)}, why="two names in turn: both are needed until both are whole"),
        ),
        beside={"log.lammps": "LAMMPS (29 Sep 2021)\n"},
        saves=STEPS,
    ),
    Layout(
        name="LAMMPS, a file for each process",
        source=LAMMPS,
        sets=(state({"melt.<s>.base.rst": BASE, "melt.<s>.{0,1,2}.rst": rank}, "s"),),
        beside={"log.lammps": "LAMMPS (29 Sep 2021)\n"},
        saves=STEPS,
    ),
    Layout(
        name="NAMD",
        source="Marcello-Sega/namd: src/Output.C, src/Controller.C",
        sets=(
            fixed({"out.restart.{coor,vel}": lambda _: COORDINATES, "out.restart.xsc": XSC}),
            fixed({"out.restart.{coor,vel}.old": lambda _: COORDINATES, "out.restart.xsc.old": XSC}),
        ),
        beside={"out.dcd": binary("dcd")},
    ),
    Layout(
        name="NAMD, restartsave",
        source="Marcello-Sega/namd: src/Output.C (restartSave)",
        sets=(state({"out.<s>.{coor,vel}": lambda _: COORDINATES, "out.<s>.xsc": XSC}, "s"),),
        saves=STEPS,
    ),
    Layout(
        name="AMBER, ntwr < 0",
        source="sander of AmberTools: mdwrit.F90 (unique restart files); Amber manual, ntwr",
        sets=(unread({"restrt_<s>": "title\n 2 0.1E+01\n"}), unread({"restrt": "title\n 2 0.1E+01\n"}, role=ANY)),
        beside={"mdcrd": "title\n", "mdout": "NSTEP\n", "mdinfo": "NSTEP\n"},
        saves=STEPS,
    ),
    Layout(
        name="OpenMM",
        source="openmm/openmm: wrappers/python/openmm/app/checkpointreporter.py",
        sets=(unread({"checkpoint.chk": binary("openmm")}),),
        beside={"state.xml": "<State/>\n", "output.dcd": binary("dcd"), "log.csv": "step\n"},
    ),
    Layout(
        name="CP2K",
        source="cp2k/cp2k: src/motion/input_cp2k_restarts.F, src/input/cp_output_handling.F",
        sets=(
            fixed({"h2-1.restart": CP2K}, role=ANY),
            fixed({"h2-RESTART.wfn": sample("cp2k-wavefunction/h2-RESTART.wfn")}, role=ANY),
        ),
        beside={
            "h2-1.restart.bak-1": CP2K,
            "h2-RESTART.wfn.bak-1": sample("cp2k-wavefunction/h2-RESTART.wfn"),
            "h2-pos-1.xyz": "2\n i = 10\n",
            "h2-1.ener": "10\n",
            "h2.inp": "&GLOBAL\n",
        },
    ),
    Layout(
        name="CP2K, RESTART_HISTORY",
        source="cp2k/cp2k: src/motion/input_cp2k_restarts.F (PRINT%RESTART_HISTORY)",
        sets=(state({"h2-1_<s>.restart": CP2K}, "s"),),
        beside={"h2-1.restart": CP2K, "h2-RESTART.wfn": sample("cp2k-wavefunction/h2-RESTART.wfn")},
    ),
    Layout(
        name="Quantum ESPRESSO",
        source="QEF/q-e: Modules/io_files.f90, PW/src/io_rho_xml.f90",
        sets=(fixed({"out/h2.save": sample_tree("quantum-espresso/h2.save")}, role=ANY, why="written in place"),),
        beside={"out/h2.xml": "<qes/>\n", "out/h2.wfc1": binary("wfc"), "h2.in": "&control\n"},
    ),
    Layout(
        name="VASP",
        source="vasp.at: Restart and output files cheat sheet; WAVECAR",
        sets=(
            unread(
                {"WAVECAR": sample("vasp/run/WAVECAR"), "CHGCAR": text("H2", "1.0")},
                why="written in place, and read later",
            ),
        ),
        beside={
            "CONTCAR": text("H2"),
            "POSCAR": text("H2"),
            "OUTCAR": text("vasp.6"),
            "XDATCAR": text("H2"),
            "vasprun.xml": "<m/>",
        },
    ),
    Layout(
        name="OpenFOAM",
        source="OpenFOAM/OpenFOAM-dev: src/OpenFOAM/db/Time/TimeIO.C",
        sets=(state({"0.<e>": foam}, "", role=ANY, is_result=True, moves=NOTHING, why="times are results"),),
        beside={**FOAM_CASE, "0/U": "FoamFile {}\n", "postProcessing/forces/0/forces.dat": "# Time\n"},
    ),
    Layout(
        name="OpenFOAM, decomposed",
        source="OpenFOAM/OpenFOAM-dev: src/OpenFOAM/global/fileOperations",
        sets=(
            state(
                {"processor{0,1}/0.<e>": foam},
                "",
                role=ANY,
                is_result=True,
                moves=NOTHING,
                why="times are results",
            ),
        ),
        beside={**FOAM_CASE, "processor{0,1}/constant/polyMesh/points": "FoamFile {}\n"},
    ),
    Layout(
        name="Nek5000",
        source="Nek5000/Nek5000: core/prepost.f",
        sets=(unread({"rs_eddy0.f0000<e>": binary("#std 4")}),),
        beside={"eddy0.f0000<e>": binary("#std 4"), "eddy.nek5000": "filetemplate\n", "logfile": "Step\n"},
        note="the numbers of restart files begin again after the last",
    ),
    Layout(
        name="GADGET-4",
        source="weiguangcui/Gadget4: src/io/restart.cc; documentation/05",
        sets=(unread({"output/restartfiles/restart.{0,1}": binary("gadget")}, role=ANY),),
        beside={
            "output/restartfiles/bak-restart.{0,1}": binary("gadget"),
            "output/snapdir_00<e>/snapshot_00<e>.{0,1}.hdf5": snapshot,
            "output/info.txt": "Sync-Point\n",
        },
    ),
    Layout(
        name="SWIFT",
        source="SWIFTSIM/SWIFT: src/restart.c, examples/parameter_example.yml",
        sets=(unread({"restart/swift_{000000,000001}.rst": binary("SWIFT")}, role=ANY),),
        beside={"restart/swift_{000000,000001}.rst.prev": binary("SWIFT"), "eagle_<i:04>.hdf5": snapshot},
    ),
    Layout(
        name="AMReX",
        source="AMReX-Codes/amrex: Src/Amr/AMReX_Amr.cpp, checkPoint",
        sets=(
            unread(
                {
                    "chk<s:05>/Header": text("CheckPointVersion_1.0", "3"),
                    "chk<s:05>/Level_0/Cell_D_0000{0,1}": binary("FAB"),
                    "chk<s:05>/Level_0/Cell_H": text("1"),
                },
            ),
        ),
        beside={"plt<s:05>/Header": text("HyperCLaw-V1.1"), "plt<s:05>/Level_0/Cell_D_00000": binary("FAB")},
    ),
    Layout(
        name="Athena++",
        source="PrincetonUniversity/athena: src/outputs/restart.cpp",
        sets=(unread({"kh.0000<e>.rst": binary("<par_end>")}),),
        beside={"kh.final.rst": Only(2, binary("<par_end>")), "kh.out1.0000<e>.athdf": snapshot, "kh.hst": "# time\n"},
    ),
    Layout(
        name="MOOSE",
        source="idaholab/moose: framework/src/outputs/Checkpoint.C",
        sets=(
            unread(
                {
                    "input_out_cp/<s:04>-mesh.cpa.gz": binary("mesh"),
                    "input_out_cp/<s:04>-restart-{0,1}.rd": binary("moose"),
                },
            ),
        ),
        beside={"input_out.e": snapshot, "input_out.csv": "time\n"},
    ),
    Layout(
        name="WRF",
        source="wrf-model/WRF: share/mediation_integrate.F, Registry/Registry.EM_COMMON (rst_outname)",
        sets=(unread({"wrfrst_d{01,02}_2026-11-2<e>_00:00:00": snapshot}),),
        beside={
            "wrfout_d{01,02}_2026-11-2<e>_00:00:00": snapshot,
            "rsl.out.0000": "Timing\n",
            "namelist.input": "&a\n",
        },
    ),
    Layout(
        name="DMTCP",
        source="dmtcp/dmtcp: src/processinfo.cpp, src/constants.h",
        sets=(
            fixed(
                {
                    "ckpt_solver_1a2b-40000-65f0c0de.dmtcp": sample("dmtcp/ckpt_solver_1a2b-40000-65f0c0de.dmtcp"),
                    "ckpt_solver_1a2b-41000-65f0c0df.dmtcp": sample("dmtcp/ckpt_solver_1a2b-41000-65f0c0df.dmtcp"),
                },
                role=ANY,
            ),
        ),
        beside={
            "dmtcp_restart_script_1a2b-40000-65f0c0de.sh": sample("dmtcp/dmtcp_restart_script_1a2b-40000-65f0c0de.sh")
        },
        links={"dmtcp_restart_script.sh": "dmtcp_restart_script_1a2b-40000-65f0c0de.sh"},
    ),
    Layout(
        name="FTI",
        source="leobago/fti: src/IO/ftiff.c, src/conf.c, src/meta.c",
        sets=(unread({"Global/2026-11-20_12-00-00/l4/Ckpt<e>-Rank{0,1}.fti": binary("FTI")}),),
        beside={"Meta/2026-11-20_12-00-00/l4/sector0-group0.fti": "[0]\n", "config.fti": "[restart]\n"},
    ),
    Layout(
        name="VELOC",
        source="ECP-VeloC/VELOC: src/common/command.cpp",
        sets=(unread({"persistent/heat-{0,1}-<s>.dat": binary("veloc")}),),
        beside={"veloc.cfg": "persistent = /p\n"},
    ),
    Layout(
        name="SCR",
        source="LLNL/scr: doc/rst/users/directories_example.rst, manage.rst",
        sets=(unread({"ckpt.<e>/rank_{0,1}.ckpt": binary("application")}, role=ANY),),
        beside={
            ".scr/index.scr": binary("index"),
            ".scr/scr.dataset.<e>/summary.scr": binary("summary"),
            ".scr/scr.dataset.<e>/rank2file": binary("files"),
        },
    ),
    Layout(
        name="a solver that saves fields as npz",
        source="none: numpy.savez of a script's own, as simulations in Python write results",
        sets=(unread({"fields_step_<s>.npz": arrays}, why="arrays are data"),),
        beside={"log.txt": "step\n"},
    ),
    Layout(
        name="snapshots in HDF5",
        source="weiguangcui/Gadget4: documentation/06_snapshotformat.md",
        sets=(unread({"snapshot_00<e>.hdf5": lambda n: made.h5_snapshot(float(n.s))}, why="snapshots are results"),),
    ),
)
