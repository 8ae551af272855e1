# The two commands a new user needs are `make demo` and `make test`; both make .venv when it is missing.
# pip with constraints.txt takes the pinned CPU build of torch; a looser request would pull in CUDA.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: demo test test-slow test-oldest fuzz lint types imports unit coverage wheel docs docs-quick results-doc clean

demo: .venv/.run
	$(BIN)/angpn demo

test: lint types imports wheel docs-quick unit

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.dev
	$(BIN)/mypy

imports: .venv/.dev
	$(BIN)/lint-imports

# On two processes, of one thread each, since threads that wait for a core spin; who is done first takes over tests.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

unit: .venv/.dev
	$(PYTEST) -m "not slow"

# What takes long and guards against rare faults: kills, torchrun jobs, full disks, a short fuzz, the paper's own data.
test-slow: .venv/.dev
	$(PYTEST) -m slow

# Hostile files, numbers, kills and downloads until the minutes are over, or for ROUNDS rounds; what broke is saved in
# build/fuzz. KINDS=models,images chooses among tests/fuzz/kinds, SEED=7 gives the same cases again.
MINUTES ?= 10
JOBS ?= 2
fuzz: .venv/.dev
	PYTHONPATH=tests $(BIN)/python -m fuzz.driver --minutes $(MINUTES) --jobs $(JOBS) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(KINDS),--kinds $(KINDS)) $(if $(SEED),--seed $(SEED))

# The fast tests with coverage, for the terminal and as coverage.xml.
coverage: .venv/.dev
	$(PYTEST) -m "not slow" --cov=angpn --cov-report=term --cov-report=xml

# The site; docs-quick checks its pages and links without running the examples, which the tests run.
docs: .venv/.dev
	$(BIN)/sphinx-build -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

docs-quick: .venv/.dev
	$(BIN)/sphinx-build -W --keep-going -q -b html -D plot_gallery=0 docs build/docs-quick

# After angpn reproduce: its tables and figures into the page that explains them.
results-doc: .venv/.run
	$(BIN)/python docs/update_results.py

# The estimators on the oldest of each dependency that pyproject allows, in an environment of its own, and a short fuzz of them.
test-oldest:
	$(PYTHON) -m venv build/oldest
	build/oldest/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable . pytest hypothesis pandas
	build/oldest/bin/python -m pytest -o filterwarnings=default tests/estimators tests/utils/test_labels.py tests/network/test_inductive.py \
	  tests/labelling/test_input_rows.py
	PYTHONPATH=tests build/oldest/bin/python -m fuzz.driver --kinds estimators --seed 0 --rounds 100

# The built wheel, not the working tree, must install and import: run from an empty folder, ahead on the path.
wheel: .venv/.dev
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build --wheel --no-isolation --outdir build/wheel . > build/wheel/log.txt || (cat build/wheel/log.txt; false)
	$(PIP_INSTALL) --no-deps --target build/wheel/site build/wheel/*.whl
	cd build/wheel && PYTHONPATH=site ../../$(BIN)/python -c "import angpn, pathlib; here = pathlib.Path(angpn.__file__).parent; \
	  assert here.parent == pathlib.Path('site').resolve(), here; assert (here / 'py.typed').exists(); print('wheel:', angpn.__version__)"

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.run: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL) --editable .
	touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP_INSTALL) --editable ".[all,dev]"
	touch $@ .venv/.run

clean:
	rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
