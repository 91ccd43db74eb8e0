# Every target sets itself up: a fresh clone needs nothing but Python 3.11 and `make demo` or `make test`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
CHROMIUM := .venv/.chromium

.PHONY: demo test lint types bench clean

demo: $(STAMP)
	$(BIN)/protoattend demo --out demo --force

# worksteal: each process keeps to whole files, whose models are then trained once, until one of them is done.
test: $(STAMP) $(CHROMIUM)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

bench: $(STAMP)
	@for file in $$(grep -l -- '"--quick"' benchmarks/*.py); do echo "== $$file"; $(BIN)/python $$file --quick || exit 1; done

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

# A browser for the tests of the page, where apt can install one; elsewhere these are skipped, and say why.
$(CHROMIUM): | $(STAMP)
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get; then \
		export DEBIAN_FRONTEND=noninteractive; \
		{ apt-get install -qq -y --no-install-recommends chromium || \
		{ timeout 120 apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; }; } </dev/null \
		|| echo "chromium cannot be installed here: tests of the page are skipped"; \
	else echo "no chromium, and no apt as root to install it: tests of the page are skipped"; fi >&2
	@touch $@

clean:
	rm -rf .venv demo .pytest_cache .mypy_cache .ruff_cache
