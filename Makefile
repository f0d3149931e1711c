# Every target sets up what it needs by itself (setup/install.sh: apt packages, .venv, .venv-p4sh) and is quick when that is done.
# Variables: PYTHONS (versions besides the system's for the unit tests), TARGET=soft|bmv2 (the P4 switch; default: bmv2 where it is installed), ARGS (passed on).

BIN := .venv/bin
PYTHONS ?= 3.10 3.11
ARCHS ?= x86_64 aarch64
TORCH ?= torch==2.13.0
packages := mrclab bench controller events experiments hosts lab rpc sim softswitch topo
target_flag := $(if $(TARGET),--target $(TARGET))

.PHONY: help docs site site-compiler browser demo test mutants test-compiled test-pythons test-debian13 vm-check paper paper-scale study training drill fuzz fuzz-p4 lint bench libmrc torch p4 pictures setup installed compiled wheels lock clean

help:
	@echo "sudo make demo    run scenarios/link-failure.yaml: a file crosses the fabric while links fail"
	@echo "sudo make test    lint, types and all tests"
	@echo "make test-pythons only the unit tests, under those of PYTHONS=\"3.10 3.11 3.12 3.13 3.14\" that are here"
	@echo "sudo make test-debian13  set up, demo and unit tests on a bare Debian 13 in a folder (needs mmdebstrap)"
	@echo "sudo make vm-check  boot the Vagrantfile's machine, emulated, and use the lab in it (half an hour; needs vagrant-libvirt)"
	@echo "sudo make paper   run the paper's experiments in miniature (about three quarters of an hour) and make their page"
	@echo "make paper-scale  the paper's experiments at its own speed, in virtual time, what sets them apart, and curves of what it could not try (five seeds of each: an hour of one core after make compiled; goes on after any end)"
	@echo "make study        completion times against EVs and loss, MRC beside REPS, Swift and RoCEv2, in virtual time (280 runs: some twenty minutes of one core after make compiled; goes on after any end)"
	@echo "make training     what failures cost training jobs, in virtual time, and docs/results/training.md (64 NICs: five minutes of one core, 1,024: more than an hour, 8,192: many hours; resumes where it ended)"
	@echo "sudo make drill   kill, stop, fill, remove, flood and deceive the parts of a running lab, fifty times (half an hour; ARGS=\"--rounds 100 --long 60\")"
	@echo "make fuzz-p4      P4 programs with code in the place of every value and key (half an hour of one core)"
	@echo "make fuzz         coverage-guided fuzzing of what parses foreign bytes (SECONDS=3600 each; TARGETS=...; puts Atheris into .venv)"
	@echo "make lint         ruff and mypy only"
	@echo "make mutants      put some ninety bugs into transport and simulator, one at a time, and name the test that notices each (minutes)"
	@echo "sudo make bench   how fast the parts are on this machine"
	@echo "make libmrc       build lib_mrc.so for programs written to OCP's MRC headers (installs gcc and libibverbs-dev where missing; OCP=DIR: those headers)"
	@echo "make torch        put PyTorch (a CPU build) into .venv and build lib_mrc.so: mrclab train, and the tests of the backend"
	@echo "make docs         the documentation as a site in build/site, all links checked"
	@echo "make site         the same, with the lab in a browser tab in build/site/try (needs node and npm)"
	@echo "sudo make site-compiler  install what compiles transport and simulator for the tab (clang, lld, headers); without it the tab runs plain Python"
	@echo "sudo make browser install what the tests of pages in a browser need: Chromium, and playwright in .venv"
	@echo "make p4           compile p4src/ (needs p4c)"
	@echo "make pictures     make the pictures in docs/ again: packets.svg, those of the lessons, and those of the live page (they need Chromium, and playwright in .venv)"
	@echo "make setup        only set up; where a C compiler and Python's headers are, compile transport and simulator, which makes them faster"
	@echo "make compiled     the same, also after it failed; an error where it cannot be"
	@echo "make test-compiled  the same, and test that a compiled run is the same run"
	@echo "make wheels       wheels with the compiled form for CPython 3.10 to 3.14 in build/wheels (needs docker; ARCHS=\"x86_64 aarch64\")"
	@echo "make lock         rewrite requirements.lock and requirements-ray.txt"

# Bytecode too: every start does without it where nobody may write it later, or PYTHONDONTWRITEBYTECODE is set.
setup: installed
	@$(BIN)/python -m compileall -q $(packages) || true
	@$(BIN)/python setup/compiled.py

installed:
	@setup/install.sh

compiled: installed
	@$(BIN)/python setup/compiled.py --strict

# A machine that is too slow (status 3) gets links half as fast: the same in round trips.
demo: installed
	@$(BIN)/mrclab run scenarios/link-failure.yaml $(target_flag) $(ARGS) || { status=$$?; [ $$status = 3 ] || exit $$status; \
	 $(BIN)/mrclab run scenarios/link-failure.yaml $(target_flag) $(ARGS) --slower 2; }

drill: installed
	@$(BIN)/python tests/drill/drill.py $(ARGS)

fuzz-p4: installed
	@$(BIN)/python tests/switch/json_injection.py $(ARGS)

SECONDS ?= 3600
TARGETS ?= scenario value matrix fabric rpc page history results mrc roce p4runtime
fuzz: installed
	@$(BIN)/pip install --quiet atheris
	@for target in $(TARGETS); do nice $(BIN)/python tests/fuzz/run.py $$target $(SECONDS) || exit 1; done

lint: installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/python setup/links.py
	$(BIN)/mypy
	$(BIN)/mypy tests/drill/*.py
	@$(BIN)/python setup/words.py

# Compiling beside lint, since that has one core busy only.
test: installed
	@$(MAKE) --no-print-directory -j2 lint setup
	@setup/ray.sh
	$(BIN)/pytest $(ARGS)
	@setup/pythons.sh $(PYTHONS)

test-compiled: compiled
	@$(BIN)/pytest tests/unit/test_compiled.py $(ARGS)

test-pythons: installed
	@setup/pythons.sh $(PYTHONS) -- $(ARGS)

test-debian13:
	@setup/bare-debian.sh trixie

vm-check:
	@setup/vm-check.sh trixie

paper: installed
	@$(BIN)/mrclab suite paper --name paper --again 3 $(target_flag) $(ARGS)

paper-scale: setup
	@$(BIN)/python -m mrclab.experiments.paperscale $(ARGS)

study: setup
	@$(BIN)/mrclab campaign experiments/study/completion-campaign.yaml --output results/study $(ARGS)
	@$(BIN)/mrclab figure results/study --x transport.ev_profile.active_per_plane --scale 4 --x-label "EVs of a QP" \
		--columns faults.lossy.rate --columns-label loss --y p50 --y p99 --y p99.9 --output docs/results/study.png --table results/study/study.md

training: setup
	@$(BIN)/python -m mrclab.experiments.training $(ARGS)

mutants: installed
	@$(BIN)/python -m tests.mutants $(ARGS)

bench: setup
	@$(BIN)/mrclab bench

wheels:
	@command -v docker >/dev/null || { echo "wheels: docker is missing (package docker.io); pip install . compiles for this machine alone" >&2; exit 1; }
	@test -x build/cibuildwheel/bin/cibuildwheel || { python3 -m venv build/cibuildwheel && build/cibuildwheel/bin/pip install -q 'cibuildwheel>=3.1,<4'; }
	build/cibuildwheel/bin/cibuildwheel --platform linux --archs $(ARCHS) --output-dir build/wheels

libmrc:
	@setup/verbs.sh
	@$(MAKE) -C hosts/libmrc $(if $(OCP),OCP=$(abspath $(OCP)))

torch: installed libmrc
	@$(BIN)/pip install --quiet --disable-pip-version-check '$(TORCH)' expecttest $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))
	@$(BIN)/python -c 'import mrclab.torch, torch; print("PyTorch", torch.__version__)'

docs:
	@test -x .venv-docs/bin/mkdocs || { python3 -m venv .venv-docs && .venv-docs/bin/pip install -q -r requirements-docs.txt; }
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build && echo "build/site/index.html"

site: docs installed
	@$(BIN)/python setup/site/build.py

site-compiler:
	@setup/site/compiler.sh

browser: installed
	@command -v chromium >/dev/null || apt-get install -y -q chromium
	@$(BIN)/pip install -q playwright

p4: installed
	@$(BIN)/python -m mrclab.lab.command.p4build

pictures: installed
	@$(BIN)/python docs/moving.py
	@$(BIN)/python docs/lessons/pictures.py
	@$(BIN)/python docs/pictures.py

lock:
	@setup/lock.sh

clean:
	@test ! -x $(BIN)/mrclab || $(BIN)/mrclab clean
