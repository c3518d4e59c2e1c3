# Two commands: `make demo` tries the whole way of the data, `make test` tests it. Both do all the set-up.
.PHONY: demo test setup lint slow clean

# A worker per core, four at most: each may hold a model. A worker that has nothing left takes tests of another. Slow
# tests are dealt one by one: those of docs/ and flows/, the longest, come first.
PYTEST = .venv/bin/python -m pytest -n logical --maxprocesses 4 --dist worksteal

setup:
	@bash .ci/setup

demo: setup
	.venv/bin/gristmill run recipes/quickstart.toml

test: setup
	$(PYTEST) -m "not slow and not vllm"

slow: setup
	$(PYTEST) --dist load --maxschedchunk 1 -rs -m "slow and not vllm"

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

clean:
	rm -rf .venv lake out dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
