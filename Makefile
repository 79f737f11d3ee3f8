# Two commands do everything: `make demo` and `make test`.
VENV := .venv
BIN := $(VENV)/bin

# Debian's Python, which its packages of ckptd run on: it is built with profile-guided optimisation, and takes a third less
# CPU than one that was compiled without. Users of the private Slurm can run it, too: one below /root, for example, they
# cannot. Elsewhere: `make PYTHON=python3 ...`.
PYTHON := /usr/bin/python3

PROGRAMS := $(VENV)/programs

AUDIT := $(VENV)/audit

KERNEL := $(VENV)/kernel

# Commands start often in tests: keep their compiled modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: venv check check-types check-rest test run-tests install-for-tests test-long test-programs test-packages audit demo
.PHONY: constraints packages

venv: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml constraints.txt
	deploy/demo/install-python $(PYTHON)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[postgres]' --group dev
	touch $@

# mypy without its cache takes far longer than the others, so they run beside it. What each prints stays together.
check: venv
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target check-types check-rest

check-types: venv
	$(BIN)/mypy

check-rest: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/codespell

# Compiles the tests of a fresh clone in one process, beside mypy, so that the workers of `test` do not each do so. What
# cannot be collected is reported by `test`.
$(VENV)/.compiled: $(VENV)/.ready
	$(BIN)/pytest --collect-only --quiet tests > /dev/null 2>&1 || true
	touch $@

# The packages are installed beside the environment, and mypy runs beside the first tests. What Python itself needs comes
# first: two programs cannot install at once.
test:
	deploy/demo/install-python $(PYTHON)
	$(MAKE) --no-print-directory --jobs 3 run-tests check-types check-rest

# Ten files at once, in the order of tests/support/file_order.py: while most wait for Slurm, some compute.
run-tests: $(VENV)/.compiled install-for-tests
	$(BIN)/pytest --numprocesses 10 --dist loadfile --no-loadscope-reorder tests

install-for-tests:
	deploy/demo/install demo test

# Random kills, attacks and made-up examples at length, to run each night.
test-long: venv
	deploy/demo/install test clock
	CKPTD_DAEMON_KILLS=40 CKPTD_EXAMPLES_FACTOR=50 $(BIN)/pytest tests/steps/prune/test_enforcing_daemon_killed.py \
		tests/steps/test_incremental_decisions.py tests/checkpoints/test_tree_fingerprint.py
	CKPTD_EXAMPLES_FACTOR=50 $(BIN)/pytest -m hypothesis tests/core tests/slurm tests/store tests/notify tests/present \
		tests/checkpoints/formats tests/web/test_certificate_expiry.py tests/steps/test_event_counter.py
	CKPTD_EXAMPLES_FACTOR=50 $(BIN)/pytest tests/layouts/test_generated_layouts.py
	CKPTD_EXAMPLES_FACTOR=20 $(BIN)/pytest tests/core/test_retention_over_weeks.py tests/simulation/test_simulation.py \
		tests/store/test_fresh_checkpoints.py tests/store/test_deleted_alike.py tests/store/test_schema.py tests/web/test_api.py
	CKPTD_RANDOM_KILLS=1000 CKPTD_ATTACK_SECONDS=60 $(BIN)/pytest \
		tests/checkpoints/test_trash_crash.py tests/checkpoints/test_trash_attack.py
	$(BIN)/python tests/fuzz/kill_sets.py --kills 600
	$(BIN)/python tests/fuzz/failover.py --rounds 50
	$(BIN)/python tests/fuzz/failover.py --rounds 50 --pgbouncer
	for seed in 1 2 3 4 5; do $(BIN)/python tests/fuzz/chaos.py --days 3 --seed $$seed || exit 1; done
	$(BIN)/python tests/fuzz/chaos.py --days 3 --seed 6 --postgresql
	$(BIN)/python tests/fuzz/users_play.py --days 1 --plays 10
	$(MAKE) --no-print-directory $(KERNEL)/.ready
	$(BIN)/python tests/fuzz/clock_jump.py --kernel $(KERNEL)

# Debian's kernel for the emulated host, only unpacked: this host keeps its own.
$(KERNEL)/.ready:
	deploy/demo/install clock
	rm -rf $(KERNEL)
	mkdir -p $(KERNEL)
	apt-cache show linux-image-amd64 >/dev/null 2>&1 || apt-get update -qq
	cd $(KERNEL) && apt-get download --quiet $$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-\)/\1/p')
	dpkg-deb --extract $(KERNEL)/linux-image-*.deb $(KERNEL)
	rm $(KERNEL)/linux-image-*.deb
	touch $@

# GROMACS, LAMMPS, torch, Keras and TensorFlow on a private Slurm, and whether what ckptd says of them is true: see tests/programs.
test-programs: venv $(PROGRAMS)/.ready
	deploy/demo/install demo test programs
	TRAINING_PYTHON=$(abspath $(PROGRAMS)/bin/python) PYTHONPATH=$(CURDIR)/daemon:$(CURDIR)/deploy:$(CURDIR)/tests \
		unshare --mount $(BIN)/python -m programs $(PROGRAMS_OPTIONS)

$(PROGRAMS)/.ready:
	$(PYTHON) -m venv $(PROGRAMS)
	$(PROGRAMS)/bin/pip install --quiet torch==2.13.0 tensorflow==2.21.0
	touch $@

demo: venv
	@deploy/demo/install demo
	@PYTHONPATH=deploy $(BIN)/python -m demo

constraints:
	rm -rf $(VENV)/resolve
	$(PYTHON) -m venv $(VENV)/resolve
	$(VENV)/resolve/bin/pip install --quiet --upgrade pip
	$(VENV)/resolve/bin/pip install --quiet --editable '.[postgres]' --group dev
	{ echo "# The exact versions that CI runs. \`make constraints\` updates them within pyproject.toml's ranges."; \
		$(VENV)/resolve/bin/pip freeze --exclude-editable; } > constraints.txt
	rm -rf $(VENV)/resolve

# A wheel, a package for Debian 12 and one for EL 9, and the list of what they contain (CycloneDX), in dist/.
packages: venv $(AUDIT)/.ready
	deploy/demo/install packages
	deploy/packages/build-deb
	deploy/packages/build-rpm
	$(AUDIT)/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible \
		--output-file dist/ckptd.cdx.json deploy/packages/requirements.txt

# Whether anything in the packages has a known vulnerability. It fails where the package index cannot tell.
audit: $(AUDIT)/.ready
	$(AUDIT)/bin/pip-audit --strict --disable-pip --requirement deploy/packages/requirements.txt

$(AUDIT)/.ready:
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/pip install --quiet cyclonedx-bom==7.5.0 pip-audit==2.10.1
	touch $@

# Installs, upgrades, rolls back and purges Debian's in a container with systemd, and lints and unpacks that for EL 9;
# three to five minutes.
test-packages: venv
	deploy/demo/install demo test packages
	$(BIN)/pytest tests/integration/packages/check_package_life.py tests/integration/packages/check_rpm.py
