# make demo     see it work, beside plain Spark
# make trading  predict the prices of stocks from a stream of quotes, into a database (options: ARGS=--help)
# make test     lint, types and tests
# make test-extended  the tests that take minutes: a cluster, the oldest Spark with the wheel alone, benchmarks on Spark
# make kafka    fetch Apache Kafka, and run the tests with a real broker: about ten minutes (options: ARGS=--help)
# make broker   fetch Apache Kafka, and run a broker on this machine until it is interrupted (options: ARGS=--help)
# make devices  install PyTorch, which takes gigabytes, and run the tests that need it
# make faults   kill streams in every way, and compare what they wrote: about half an hour (options: ARGS=--help)
# make docs     the documentation as a site, in build/site: a link that leads nowhere is an error
# make notebooks  run the notebooks, and compare what they show with what is stored (options: ARGS=--help)
# make package  wheel and sdist in dist/, checked, and the wheel tried alone
# make matrix   the wheel alone with every Python and Spark: up to an hour (options: ARGS=--help)
# make compare  the speed of two revisions without Spark, about six minutes: make compare ARGS="OLD [NEW]"

VENV := .venv
OLDEST := .venv-oldest
KAFKA := .venv-kafka
WITH_JAVA := scripts/with-java

.PHONY: help setup demo trading test test-extended kafka broker devices faults lint bench compare pictures test-oldest docs notebooks package matrix clean
help:
	@sed -n 's/^# //p' Makefile
	@echo 'make lint, make bench, make pictures, make setup, make test-oldest (the oldest Spark that is supported), make clean'

setup: $(VENV)/.ready
$(VENV)/.ready: pyproject.toml scripts/setup
	@scripts/setup $(VENV)

demo: setup
	@$(WITH_JAVA) $(VENV)/bin/muntin demo

trading: setup
	@$(WITH_JAVA) $(VENV)/bin/python -m examples.trading $(ARGS)

test: setup lint
	$(WITH_JAVA) $(VENV)/bin/pytest -n 2 --dist worksteal -m 'not extended'

test-extended: setup
	$(WITH_JAVA) $(VENV)/bin/pytest -m extended

# Delta's extension is published for this PySpark, too.
$(KAFKA)/.ready: pyproject.toml scripts/setup
	@EXTRA=delta scripts/setup $(KAFKA) 'pyspark==4.1.3' 'hypothesis>=6.100' 'pytest>=8'

kafka: $(KAFKA)/.ready
	@$(KAFKA)/bin/python scripts/kafka_jars.py $(ARGS)
	$(WITH_JAVA) $(KAFKA)/bin/pytest tests/kafka

broker: $(KAFKA)/.ready
	@$(WITH_JAVA) $(KAFKA)/bin/python scripts/kafka_broker.py $(ARGS)

devices: setup
	$(VENV)/bin/python -m pip install --quiet --editable '.[torch]'
	$(WITH_JAVA) $(VENV)/bin/pytest tests/devices tests/spark/test_device.py tests/bench/test_kernel_device.py

faults: setup
	@$(WITH_JAVA) $(VENV)/bin/python -m tests.faults $(ARGS)

lint: setup
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

docs: setup
	@$(VENV)/bin/python scripts/build_docs.py

notebooks: setup
	@$(WITH_JAVA) $(VENV)/bin/python scripts/notebooks.py $(ARGS)

package: setup
	@$(WITH_JAVA) scripts/package $(VENV)

matrix: setup
	@$(WITH_JAVA) $(VENV)/bin/python scripts/matrix.py $(ARGS)

bench: setup
	@$(WITH_JAVA) $(VENV)/bin/muntin bench slide

compare: setup
	@$(VENV)/bin/python scripts/compare_speed.py $(ARGS)

pictures: setup
	@$(VENV)/bin/python scripts/draw_windows.py
	@$(VENV)/bin/python scripts/draw_calendar.py
	@$(VENV)/bin/python scripts/window_pages.py

$(OLDEST)/.ready: pyproject.toml scripts/setup
	@scripts/setup $(OLDEST) 'pyspark==4.1.*'

test-oldest: $(OLDEST)/.ready
	$(WITH_JAVA) $(OLDEST)/bin/pytest -n 2 --dist worksteal -m 'not extended'

clean:
	rm -rf $(VENV) $(OLDEST) $(KAFKA) .mypy_cache .pytest_cache .ruff_cache .hypothesis bench-results demo-results trading-results kafka-results iceberg-results dist build
