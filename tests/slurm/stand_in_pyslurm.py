"""A module that answers as pyslurm does, in its modern and in its older form.

The attributes, their spellings of nothing and the failure of `run_time_remaining` are those seen with 25.11.2; the
older form's keys are those of `pyslurm.job().get()` of 22.5.
"""

MODERN = """
__version__ = "25.11.2"

class Job:
    array_id = array_task_id = array_tasks_parallel = array_tasks_waiting = heterogeneous_id = None
    user_name, user_id, account, partition, qos, name = "alice", 1000, None, "main", None, "train"
    admin_comment = dependencies = pre_suspension_time = None
    state, state_reason, requeue_count, is_requeueable = "RUNNING", "None", 0, True
    time_limit, submit_time, start_time, end_time = 30, 1795176000, 1795176000, 1795177800
    working_directory, allocated_nodes, batch_host = "/home/alice", "n1", "n1"
    command = "/home/alice/train.sh --resume epoch_3.pt"
    num_nodes, cpus, is_batch_job, mail_user, gpus, gres_per_node = 1, 2, True, ["alice"], {}, {"gres/gpu": 1}

    def __init__(self, id, **changes):
        self.id = id
        self.__dict__.update(changes)

    @property
    def comment(self):
        return b"broken \\xff".decode()

    @property
    def run_time_remaining(self):
        raise TypeError("unsupported operand type(s) for -: 'int' and 'NoneType'")


class Jobs:
    @staticmethod
    def load():
        jobs = [
            Job(1),
            Job(2, time_limit=None, end_time=1826712000),
            Job(3, array_id=3, array_tasks_waiting="1-2", array_tasks_parallel=2, state="PENDING", start_time=None,
                end_time=None, allocated_nodes=None, batch_host=None),
            Job(4, array_id=3, array_tasks_parallel=2),
            Job(5, state="SUSPENDED", pre_suspension_time=60, dependencies={"afterok": [1, 2], "satisfy": "all"}),
            Job(6, state="CANCELLED"),
        ]
        return {job.id: job for job in jobs}
"""
OLDER = """
__version__ = "22.5.1"
BASE = dict(
    array_job_id=None, array_task_id=None, array_task_str=None, het_job_id=0, user_id=0, account="lab",
    partition="main", qos="normal", name="train", job_state="RUNNING", state_reason="None", requeue=True,
    submit_time=1795176000, start_time=1795176000, end_time=1795177800, pre_sus_time=0, comment=None,
    admin_comment=None, dependency=None, nodes="n1", batch_host="n1", tres_alloc_str="cpu=2,node=1,gres/gpu=1",
    tres_per_node=None, tres_per_job=None, tres_per_task=None, batch_flag=1, mail_user=None, restart_cnt=0,
    time_limit=30, work_dir="/root", command="/home/alice/train.sh --resume epoch_3.pt", num_nodes=1, num_cpus=2,
)

class job:
    def get(self):
        return {
            1: BASE,
            2: dict(BASE, time_limit="UNLIMITED", end_time=1826712000),
            3: dict(BASE, array_job_id=3, array_task_str="1-2", job_state="PENDING", start_time=0, end_time=0,
                    array_task_throttle=2),
            4: dict(BASE, array_job_id=3, array_task_id=0, array_task_throttle=2),
            5: dict(BASE, job_state="SUSPENDED", pre_sus_time=60, dependency="afterok:1:2"),
            6: dict(BASE, job_state="CANCELLED"),
        }
"""
FORMS = {"modern": MODERN, "older": OLDER}


def install(directory, form):
    """Write the module into `directory/modules`."""
    modules = directory / "modules"
    modules.mkdir(exist_ok=True)
    (modules / "pyslurm.py").write_text(FORMS[form])
