"""Names that Slurm or habit gives to jobs of any kind, so that two jobs of one such name need not be alike."""

# sbatch names a job after its script, after "wrap" with --wrap, and after itself where the script comes from a pipe;
# srun and salloc name it after the command, salloc without one after "interactive"
_GENERIC = frozenset({
    "bash", "csh", "dash", "debug", "fish", "interact", "interactive", "ipython", "job", "julia", "jupyter",
    "jupyter-lab", "jupyter-notebook", "ksh", "lab", "matlab", "mpirun", "my_job", "myjob", "none", "notebook",
    "octave", "python", "python2", "python3", "r", "rscript", "run", "salloc", "sbatch", "script", "sh", "shell",
    "sinteractive", "sleep", "slurm", "srun", "tcsh", "test", "tmp", "vscode", "wrap", "xterm", "zsh",
})  # fmt: skip
# in which a person works, and decides what to run and when to save
_INTERACTIVE = frozenset({
    "bash", "csh", "dash", "fish", "interact", "interactive", "ipython", "jupyter", "jupyter-lab", "jupyter-notebook",
    "ksh", "lab", "notebook", "salloc", "shell", "sinteractive", "tcsh", "vscode", "xterm", "zsh",
})  # fmt: skip
_OF_PORTALS = ("sys/dashboard/", "ood-", "ondemand/", "spawner-jupyterhub")  # Open OnDemand, JupyterHub


def is_generic(name: str) -> bool:
    """Whether jobs of this name need not have anything in common but their user."""
    lowered = _lower(name)
    return not any(map(str.isalpha, lowered)) or lowered in _GENERIC or lowered.startswith(_OF_PORTALS)


def is_interactive(name: str) -> bool:
    """Whether a person works in jobs of this name: a shell, a notebook or a session of a portal."""
    lowered = _lower(name)
    return lowered in _INTERACTIVE or lowered.startswith(_OF_PORTALS)


def _lower(name: str) -> str:
    return name.strip().lower().rpartition("/bin/")[2]
