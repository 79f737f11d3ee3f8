"""Directories of jobs that save in formats which ckptd does not know, and of jobs that save nothing.

Names are those that the programs document or their users choose. A path that ends in `@old` was there before the job.
"""

FORTRAN = b"\x10\0\0\0\xcd\xcc\xcc\xcc\xcc\xcc\xf4?\x9a\x99\x99\x99\x99\x99\xf1?\x10\0\0\0" * 20
NETCDF = b"CDF\x02\0\0\0\0\0\0\0\n\0\0\0\x02\0\0\0\x04time" + FORTRAN
NETCDF4 = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\x04\0\x10\0" + FORTRAN
PROGRAM = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0" + FORTRAN
CORE = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0>\0" + FORTRAN
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + FORTRAN
GZIP = b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + FORTRAN
PICKLE = b"\x80\x04\x95\x1a\0\0\0\0\0\0\0}\x94(" + FORTRAN
LOG = b"step 100 energy -1.25e3 temperature 300.1\n" * 20
ZSTD = b"\x28\xb5\x2f\xfd" + FORTRAN
SQLITE = b"SQLite format 3\0" + FORTRAN
COLOURED = b"\x1b[32mINFO\x1b[0m epoch 1 loss 0.5\r\x1b[A 10%|#   | 10/100\n" * 20  # tqdm and rich
OVERWRITTEN = b"Epoch 1/10\n 1/100 [....]" + b"\b" * 60 + b" 2/100 [....]" + b"\b" * 60  # Keras
LATIN = "Schritt 1: Energie für die Lösung -1.25e3\n".encode("latin-1") * 20
PROSE = b"Usage\n=====\n\nThe training saves its state every hour. See the manual.\n" * 10
COORDINATES = b"default_name\n  1204  0.5000000E+02\n  14.1266  12.3346   9.0512\n" * 10

UNKNOWN_FORMATS = {
    "MESA": {"LOGS/history.data": LOG, "photos/x100": FORTRAN, "photos/x200": FORTRAN},
    "CESM": {
        "b.e21.cpl.r.0001-01-06-00000.nc": NETCDF,
        "b.e21.cam.r.0001-01-06-00000.nc": NETCDF,
        "rpointer.atm": b"b.e21.cam.r.0001-01-06-00000.nc\n",
        "cesm.log.4711": LOG,
    },
    "FV3": {"RESTART/fv_core.res.tile1.nc": NETCDF, "RESTART/coupler.res": LOG},
    "MOM6 and CICE": {"RESTART/MOM.res.nc": NETCDF, "RESTART/iced.2020-01-01-00000.nc": NETCDF, "ocean.stats": LOG},
    "StarCrash": {"out010.sph": FORTRAN, "energy.sph": LOG},
    "WRF": {"wrfrst_d01_2024-01-01_06:00:00": NETCDF, "rsl.out.0000": LOG, "rsl.error.0000": LOG},
    "MPAS": {"restart.2024-01-01_06.00.00.nc": NETCDF4, "log.atmosphere.0000.out": LOG},
    "ROMS": {"ocean_rst.nc": NETCDF, "ocean.in": LOG},
    "MITgcm": {"pickup.0000003600.data": FORTRAN, "pickup.0000003600.meta": LOG, "STDOUT.0000": LOG},
    "Enzo": {"DD0001/DD0001": LOG, "DD0001/DD0001.cpu0000": NETCDF4, "DD0001/DD0001.hierarchy": LOG},
    "Gadget": {"restartfiles/restart.0": FORTRAN, "restartfiles/restart.1": FORTRAN, "cpu.txt": LOG},
    "RAMSES": {"output_00001/amr_00001.out00001": FORTRAN, "output_00001/hydro_00001.out00001": FORTRAN},
    "AMReX": {"chk00100/Header": LOG, "chk00100/Level_0/Cell_D_0000": FORTRAN, "chk00100/Level_0/Cell_H": LOG},
    "Athena++": {"blast.00003.rst": b"<comment>\nproblem = blast\n" * 4 + FORTRAN, "blast.hst": LOG},
    "Nek5000": {"rs6case0.f00001": b"#std 4  8  8  1       100" + FORTRAN, "case.rea": LOG, "logfile": LOG},
    "BOUT++": {"BOUT.restart.0.nc": NETCDF4, "BOUT.log.0": LOG},
    "GENE": {"checkpoint": FORTRAN, "parameters": LOG, "nrg.dat": LOG},
    "PIConGPU": {"checkpoints/checkpoint_100.bp/data.0": FORTRAN, "checkpoints/checkpoint_100.bp/md.0": FORTRAN},
    "Abaqus": {"beam.res": FORTRAN, "beam.stt": FORTRAN, "beam.mdl": FORTRAN, "beam.inp": LOG, "beam.sta": LOG},
    "LS-DYNA": {"d3dump01": FORTRAN, "runrsf": FORTRAN, "d3hsp": LOG},
    "Ansys": {"file.rdb": FORTRAN, "file.r001": FORTRAN, "file.ldhi": LOG, "solve.out": LOG},
    "STAR-CCM+": {"wing@00500.sim": FORTRAN, "run.java": LOG},
    "Fluent": {"wing-1-00100.cas": FORTRAN, "wing-1-00100.dat": FORTRAN, "run.jou": LOG},
    "SU2": {"restart_flow.dat": FORTRAN, "history.csv": LOG, "wing.cfg": LOG},
    "SU2 as text": {"restart_flow.csv": LOG, "history.csv": LOG, "wing.cfg": LOG},
    "a state as JSON": {"checkpoint.json": b'{"step": 1200, "seed": 17, "best": [0.5, 0.25]}\n', "run.log": LOG},
    "Amber as text": {"md.rst7": COORDINATES, "md.in": LOG, "md.out": LOG},
    "CHARMM as text": {"md.rst": COORDINATES, "md.inp": LOG},
    "Amber by its default name": {"restrt": COORDINATES, "mdinfo": LOG, "mdout": LOG},
    "Gaussian": {"water.chk": FORTRAN, "water.gjf": LOG, "water.log": LOG},
    "ORCA": {"water.gbw": FORTRAN, "water.inp": LOG, "water.out": LOG},
    "NWChem": {"water.movecs": FORTRAN, "water.db": FORTRAN, "water.nw": LOG},
    "ABINIT": {"silicon_DS1_WFK": FORTRAN, "silicon.abi": LOG, "silicon.abo": LOG},
    "SIESTA": {"silicon.DM": FORTRAN, "silicon.fdf": LOG},
    "CASTEP": {"silicon.check": FORTRAN, "silicon.cell": LOG, "silicon.castep": LOG},
    "MCNP": {"runtpe": FORTRAN, "outp": LOG},
    "IQ-TREE": {"alignment.phy.ckp.gz": GZIP, "alignment.phy.log": LOG},
    "an own Fortran unit": {"fort.20": FORTRAN, "fort.6": LOG, "namelist.nml": LOG},
    "own numbered dumps": {"restart.0001": FORTRAN, "run.log": LOG},
    "own dumps by rank": {"dump/rank_0.bin": FORTRAN, "dump/rank_1.bin": FORTRAN},
    "own dumps with a suffix of their own": {"lattice_00100.lqcd": FORTRAN, "solver": PROGRAM},
    "one own file": {"state.dat": FORTRAN},
    "Elk and exciting": {"STATE.OUT": FORTRAN, "INFO.OUT": LOG},
    "PLUTO": {"data.0001.dbl": FORTRAN, "restart.out": FORTRAN, "dbl.out": LOG},
    "OpenMM as text": {
        "state.xml": b'<?xml version="1.0" ?>\n<State openmmVersion="8.1" time="10" type="State" version="1">\n' + LOG
    },
    "BEAST 2": {"h3n2.xml.state": b"<itsabeastystatewerein version='2.0' sample='10000'>\n" + LOG, "h3n2.trees": LOG},
    "Turbomole": {"mos": b"$scfmo    scfconv=7   format(4d20.14)\n" + COORDINATES, "control": LOG, "energy": LOG},
    "VASP without WAVECAR": {"CONTCAR": COORDINATES, "OSZICAR": LOG, "REPORT": LOG},
    "DL_POLY without REVIVE": {"REVCON": COORDINATES, "OUTPUT": LOG},
    "Tinker": {"protein.dyn": COORDINATES, "protein.key": LOG},
    "TOUGH2": {"SAVE": b"INCON -- INITIAL CONDITIONS FOR   100 ELEMENTS AT TIME  0.1E+08\n" + COORDINATES},
    "Elmer": {"case.result": b" ASCII 3\n!File started at: 2024/01/01 10:00:00\n Degrees of freedom:\n" + COORDINATES},
    "FHI-aims": {"geometry.in.next_step": COORDINATES, "geometry.in": COORDINATES},
    "WIEN2k": {"case.clmsum": COORDINATES, "case.struct": LOG},
    "models of MESA": {"saved.mod": b"! note: initial lines of file can contain comments\n!\n" + COORDINATES},
}

NO_CHECKPOINTS = {
    "nothing": {},
    "a log": {"run.log": LOG},
    "Slurm's output": {"slurm-4711.out": LOG, "slurm-4711.err": LOG},
    "output of tasks": {"rank.0": LOG, "rank.1": LOG, "stdout": LOG, "stderr.17": LOG},
    "a program": {"solver": PROGRAM, "solver.psmp": PROGRAM},
    "scripts": {"job.sh": LOG, "train.py": LOG, "model.jl": LOG, "analysis.m": LOG, "run.R": LOG, "main.f90": LOG},
    "inputs": {"INCAR": LOG, "POSCAR": LOG, "input.nml": LOG, "wing.msh": LOG, "md.mdp": LOG, "water.inp": LOG},
    "plots": {"loss.png": PNG, "loss.pdf": b"%PDF-1.7\n" + FORTRAN, "loss.jpg": b"\xff\xd8\xff\xe0" + FORTRAN},
    "videos": {"rollout.mp4": b"\0\0\0\x20ftypisom" + FORTRAN, "rollout.gif": b"GIF89a" + FORTRAN},
    "tables": {"losses.csv": LOG, "losses.xlsx": b"PK\x03\x04" + FORTRAN, "losses.dat": LOG, "energy.xvg": LOG},
    "measures by epoch": {
        "epoch_losses.csv": LOG,
        "checkpoint_times.csv": LOG,
        "restart_log.txt": LOG,
        "epoch.json": LOG,
    },
    "a core dump": {"core": CORE},
    "core dumps by process": {"core.4711": CORE, "core.node17.4712": CORE, "vgcore.4713": CORE},
    "TensorBoard": {"runs/events.out.tfevents.1700000000.n1.4711.0": FORTRAN},
    "Weights & Biases": {
        "wandb/run-20240101_000000-abc/run-abc.wandb": FORTRAN,
        "wandb/run-20240101_000000-abc/files/output.log": LOG,
        "wandb/run-20240101_000000-abc/files/media/audio_1.flac": FORTRAN,
    },
    "MLflow": {"mlruns/0/abc/metrics/loss": b"1700000000 0.5 1\n" * 9, "mlruns/0/meta.yaml": LOG},
    "Hydra": {".hydra/config.yaml": LOG, "train.log": LOG},
    "Nsight": {"report1.nsys-rep": FORTRAN, "kernels.ncu-rep": FORTRAN, "old.qdrep": FORTRAN},
    "PyTorch's profiler": {"n1_4711.1700000000.pt.trace.json.gz": GZIP, "trace.json": LOG},
    "Python's profiler": {"train.prof": b"{\xe9\x01\0\0\0" + FORTRAN, "gmon.out": b"gmon\x01\0\0\0" + FORTRAN},
    "traces of MPI": {
        "traces.otf2": FORTRAN,
        "app.darshan": FORTRAN,
        "profile.cubex": FORTRAN,
        "perf.data": b"PERFILE2" + FORTRAN,
    },
    "traces of NCCL": {"nccl_trace_rank_0": PICKLE, "nccl_trace_rank_1": PICKLE},
    "scratch of Dask": {"dask-worker-space/storage/chunk-1": FORTRAN, "dask-worker-space/global.lock": b""},
    "alignments": {"reads.bam": GZIP, "reads.bam.bai": FORTRAN, "genome.fa": LOG},
    "compiled files": {"mesh.o": PROGRAM, "mesh.mod": GZIP, "lib.so": PROGRAM, "train.pyc": b"\xcb\r\r\n" + FORTRAN},
    "caches of compilers": {"__pycache__/train.cpython-312.pyc": FORTRAN, ".triton/kernel.cubin": PROGRAM},
    "datasets from before": {"train.tfrecord@old": FORTRAN, "train.bin@old": FORTRAN, "cells.dat@old": FORTRAN},
    "restart files that were copied before": {"initial.res@old": FORTRAN, "init_x100@old": FORTRAN, "run.log": LOG},
    "prepared datasets": {"data-00000-of-00001.arrow": b"ARROW1\0\0" + FORTRAN, "part.parquet": b"PAR1" + FORTRAN},
    "archives of code": {
        "code.tar.gz": GZIP,
        "run.log.gz": GZIP,
        "image.sif": b"#!/usr/bin/env run-singularity\n" + FORTRAN,
    },
    "packages": {"wheels/numpy-2.0-cp312.whl": b"PK\x03\x04" + FORTRAN, "env.tar.zst": b"\x28\xb5\x2f\xfd" + FORTRAN},
    "pictures of fields": {
        "field.vtu": b'<?xml version="1.0"?>\n' + FORTRAN,
        "field.vtk": b"# vtk\n" + FORTRAN,
    },
    "trajectories": {"md.xtc": FORTRAN, "md.dcd": FORTRAN, "md.xyz": COORDINATES, "md.edr": FORTRAN},
    "a clone of a repository": {"code/README.rst": PROSE, "code/Makefile": PROSE, "code/docs/index.rst": PROSE},
    "empty markers": {"RUNNING": b"", "restart.lock": b"", "state.dat": b""},
    "notes of the process": {"job.pid": b"4711\n", "hostfile": b"n1\nn2\n", "nodes.17": b"n1\n"},
    "output with colours": {"stdout": COLOURED, "log/rank_0": COLOURED, "job.o4711": COLOURED},
    "output that overwrites itself": {"train_output": OVERWRITTEN},
    "output in Latin-1": {"ausgabe": LATIN, "job.o4711": LATIN},
    "compressed output": {"stdout.gz": GZIP, "train.log.2.gz": GZIP, "slurm-4711.out.zst": ZSTD},
    "core dumps of systemd": {"core.python.1000.0123abcd.4711.1700000000000000.zst": ZSTD, "core.4711.lz4": FORTRAN},
    "conda": {
        "env/bin/python3.12": PROGRAM,
        "env/share/terminfo/x/xterm": b"\x1a\x01" + FORTRAN,
        "env/share/zoneinfo/Europe/Berlin": b"TZif2" + FORTRAN,
        "env/conda-meta/history": LOG,
        "env/lib/python3.12/site-packages/numpy/_core/tests/data/test.dat": FORTRAN,
    },
    "an environment of Python": {
        "venv/pyvenv.cfg": LOG,
        "venv/lib/python3.12/site-packages/scipy/io/tests/data/test.dat": FORTRAN,
    },
    "modules of Node.js and a repository": {
        "app/node_modules/a/node_modules/b/node_modules/c/dist/d/x.dat": FORTRAN,
        "code/.git/modules/a/modules/b/objects/ab/cdef": FORTRAN,
    },
    "caches of Numba": {"__pycache__/f.f-1.py312.nbi": PICKLE, "__pycache__/f.f-1.py312.1.nbc": PICKLE},
    "caches of PyTorch, JAX and CUDA": {
        "torchinductor_alice/fxgraph/ab/cdef/0123": PICKLE,
        "jax_cache/jit_step-0123abcd-cache": ZSTD,
        "ComputeCache/0/a/abcdef012345": FORTRAN,
    },
    "caches of downloads": {
        "hf/hub/models--gpt2/blobs/248dfc39": FORTRAN,
        "hf/xet/chunks/ab": FORTRAN,
        "pip/http-v2/a/b/abcd": FORTRAN,
    },
    "tokenizers": {"tokenizer.model": b"\n\x0e\n\x05<unk>\x15\0\0" + FORTRAN, "merges.txt": LOG},
    "Megatron's data sets": {"text_document.bin": FORTRAN, "text_document.idx": b"MMIDIDX\0\0" + FORTRAN},
    "further data sets": {"shard.0.mds": FORTRAN, "shard.0.mds.zstd": ZSTD, "train.beton": FORTRAN, "a.nii.gz": GZIP},
    "genomes": {"reads.fq.gz": GZIP, "genes.gtf.gz": GZIP, "x.vcf.gz.tbi": GZIP, "g.bwt": FORTRAN, "nt.nsq": FORTRAN},
    "nanopores": {"reads.pod5": FORTRAN, "reads.fast5": NETCDF4},
    "exported models": {"model.onnx": FORTRAN, "model.engine": FORTRAN, "xla/module_0001.hlo.pb": FORTRAN},
    "counters of coverage": {"src/a.gcda": FORTRAN, "src/a.gcno": FORTRAN},
    "further traces": {
        "scorep/traces.def": FORTRAN,
        "scorep/traces/0.evt": FORTRAN,
        "set-0/TRACE@n1.0000.mpit": FORTRAN,
        "memray-train.py.4711.bin": b"memray\0" + FORTRAN,
        "heaptrack.solver.4711.zst": ZSTD,
        "java_pid1.hprof": FORTRAN,
        "r000hs/sqlite-db/dicer.db": SQLITE,
        "comm_lib_trace_rank_0": PICKLE,
    },
    "images of containers": {"image.sqsh": FORTRAN, "image.squashfs": FORTRAN, "overlay.ext3": FORTRAN},
    "databases of trackers": {"mlflow.db": SQLITE},
    "scratch of Spark and of MPI": {"blockmgr-1/0c/shuffle_0.data": FORTRAN, "ompi.n1.1000/pmix.sys": FORTRAN},
    "shapes": {"mesh.ply": FORTRAN, "mesh.glb": FORTRAN, "scene.exr": FORTRAN, "settings.xml": LOG},
}
