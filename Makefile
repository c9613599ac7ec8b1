# One command each. The stamps in .venv* keep a second run from installing again.
PYTHON ?= python3
export PYTHON
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_QUIET := 1
# A Python that may not keep what it compiles would compile the package again in each process that a test starts.
unexport PYTHONDONTWRITEBYTECODE
# Where tests put their logs: thousands of small files, most of them synced. In memory, where there is room.
export PYTEST_DEBUG_TEMPROOT := $(or $(PYTEST_DEBUG_TEMPROOT),$(shell [ "$$(df -kP /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }')" -gt 4000000 ] 2>/dev/null && echo /dev/shm))
# Each process that runs tests may have Spark and two brokers beside it.
AT_ONCE := --numprocesses $(or $(PROCESSES),2) --dist
# Two targets at a time: while one downloads, links or waits, the other computes. Cargo does not count as one of them.
MAKEFLAGS += --jobs=2
unexport MAKEFLAGS MFLAGS
RUST := Cargo.toml Cargo.lock $(shell find rust -name target -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print)
JAR := src/brokerless/spark/brokerless.jar

.PHONY: setup prerequisites develop demo check test test-core test-oldest test-python test-jar hunt lint conformance bench fuzz sanitize docs

setup: prerequisites .venv/.developed $(JAR) target/checked/.compiled  ## .venv with the package, its spark extra and the command; the core's tests

prerequisites:
	@tools/prerequisites

develop: .venv/.tools  ## rebuild the extension now
	.venv/bin/maturin develop --quiet --extras spark && touch .venv/.developed

demo: setup  ## the main job: sample logs -> Spark table -> Parquet
	.venv/bin/python examples/demo.py

check: setup  ## the quick loop: formats and ruff's rules, the core's tests without fuzzing, tests/unit without the slow ones
	.venv/bin/ruff check --quiet && .venv/bin/ruff format --check --quiet && cargo fmt --check
	cargo test --profile checked --quiet $(CRATES) --lib $(CORE_TESTS)
	.venv/bin/python -m pytest tests/unit -m "not slow" --hypothesis-profile=dev $(AT_ONCE) worksteal

CRATES := --package brokerless-core --package brokerless-jvm --package brokerless-serve
CORE_TESTS := $(addprefix --test ,$(filter-out data support,$(basename $(notdir $(wildcard rust/core/tests/*)))))

test: test-core test-oldest test-python test-jar  ## the whole suite; golden reads and streams also on the oldest Spark, and reads also in the JVM

test-core: setup
	cargo test --profile checked --quiet $(CRATES)

test-oldest: .venv-oldest/.installed
	.venv-oldest/bin/python -m pytest tests/spark/test_golden.py tests/spark/test_stream.py tests/unit/io/test_remote.py

test-python: setup
	@tools/prerequisites browser
	.venv/bin/python -m pytest --hypothesis-profile=ci $(AT_ONCE) worksteal

# What a reader or a writer in the JVM could do otherwise.
IN_JVM := $(addprefix tests/spark/test_,golden.py source.py sink.py stream.py stream_sink.py kills.py jar.py jar_writes.py jar_cancelled.py jar_damage.py jar_leaks.py jar_loading.py)
test-jar: setup .venv-oldest/.installed
	[ ! -f $(JAR) ] || BROKERLESS_JAR=1 .venv/bin/python -m pytest $(IN_JVM)
	[ ! -f $(JAR) ] || BROKERLESS_JAR=1 .venv-oldest/bin/python -m pytest $(addprefix tests/spark/test_,golden.py sink.py stream.py stream_sink.py)

hunt: setup  ## seeded damage to the logs of real brokers, read in every way: HUNT cases (20000)
	BROKERLESS_HUNT=$(or $(HUNT),20000) .venv/bin/python -m pytest tests/unit/log/test_hunting.py
	[ ! -f $(JAR) ] || BROKERLESS_HUNT=$(or $(HUNT),20000) BROKERLESS_JAR=1 .venv/bin/python -m pytest $(addprefix tests/spark/test_jar_,damage.py leaks.py)

lint: setup tools/prose/node_modules/.installed
	@tools/prerequisites lint
	.venv/bin/python tools/prose/help_texts.py build/prose/help.md && tools/prose/node_modules/.bin/textlint --config tools/prose/.textlintrc.json *.md docs build/prose/help.md
	.venv/bin/ruff check --quiet && .venv/bin/ruff format --check --quiet && .venv/bin/mypy && .venv/bin/lint-imports --no-logo && .venv/bin/python -m mypy.stubtest brokerless._native
	cargo fmt --check && cargo clippy --release --workspace --all-targets --quiet -- -D warnings

conformance: setup .venv-oldest/.installed build/conformance/.fetched  ## real Kafka brokers, clients and tools, an S3 server, Delta Lake and Iceberg, against what we write and read
	.venv/bin/python -m pytest -m conformance tests/conformance tests/spark $(AT_ONCE) loadfile

bench: setup build/conformance/.fetched  ## against what users would otherwise run; BENCH="decode encode append convert compact json spark connector jvm jobs scale state check serve" or some of them
	@tools/prerequisites maven
	.venv/bin/pip install --group bench && .venv/bin/python -m compileall -q src && .venv/bin/python bench/run.py $(BENCH)

fuzz: setup  ## hostile bytes, guided by coverage: each target for FUZZ_SECONDS (600); FUZZ="decode zstd inputs" or some of them; SANITIZER=address with nightly Rust
	@tools/prerequisites fuzz
	for target in $(or $(FUZZ),inputs $(notdir $(basename $(wildcard rust/fuzz/fuzz_targets/*.rs)))); do if [ $$target = inputs ]; then $(INPUTS); else mkdir -p rust/fuzz/corpus/$$target && $(UNSANITIZED_C) cargo +$(if $(SANITIZER),nightly,stable) fuzz run --fuzz-dir rust/fuzz --sanitizer $(or $(SANITIZER),none) $$target rust/fuzz/corpus/$$target rust/fuzz/seeds/* -- -max_total_time=$(or $(FUZZ_SECONDS),600) -max_len=65536; fi || exit 1; done

# What `produce` and `Producer.send` take; they are Python's and pyarrow's too, which nothing guides through.
INPUTS = directory=$$(mktemp -d) && .venv/bin/python tests/hostile_inputs.py $$directory --seed $$(date +%s) --seconds $(or $(FUZZ_SECONDS),600) || { echo "the input is $$directory/input" >&2; false; }

sanitize:  ## the tests of the core and of its part in the JVM under the address sanitizer, and the core's unsafe part under Miri; needs nightly Rust
	@tools/prerequisites nightly
	$(UNSANITIZED_C) RUSTFLAGS=-Zsanitizer=address cargo +nightly test --profile checked --quiet $(CRATES) --target $(NATIVE) --target-dir target/sanitize
	cargo +nightly miri test --package brokerless-core --test records both_ways

# gcc's own sanitizer would report a stack use in zstd that is none.
UNSANITIZED_C = CFLAGS=-fno-sanitize=all
NATIVE = $$(rustc -vV | sed -n 's/^host: //p')

docs: setup  ## site/
	.venv/bin/pip install --group docs && .venv/bin/mkdocs build --strict --quiet

# Kafka as it is released, and the small client that drives it. 2.8 is the last that writes formats 0 and 1.
KAFKA := mvn -q -B -f tests/conformance/java/pom.xml dependency:copy-dependencies -DexcludeArtifactIds=slf4j-log4j12
# Of these the broker alone, and of the newest one the tools.
OTHER_RELEASES := 3.9.2 4.0.2 4.4.0
# Of these only the definitions of metadata records that later releases lack: tools/messages reads them.
METADATA_RELEASES := 3.2.3 3.4.1
build/conformance/.fetched: $(shell find tests/conformance -name pom.xml -o -name '*.java' -o -path '*/go/*')
	@tools/prerequisites maven
	if tools/prerequisites go; then cd tests/conformance/go && CGO_ENABLED=0 go build -trimpath -o $(CURDIR)/build/conformance/franz-go .; fi
	mvn -q -B -f tests/conformance/s3/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/conformance/s3/lib
	mvn -q -B -f tests/conformance/connector/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/build/conformance/connector/lib
	mvn -q -B -f tests/conformance/tables/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/build/conformance/tables/lib
	$(KAFKA) compile -Dbuild=$(CURDIR)/build/conformance/4.1.0 -DoutputDirectory=$(CURDIR)/build/conformance/4.1.0/lib
	$(KAFKA) -Dkafka.version=2.8.2 -Djackson.version=2.10.5.1 -Dbuild=$(CURDIR)/build/conformance/2.8.2 -DoutputDirectory=$(CURDIR)/build/conformance/2.8.2/lib
	mvn -q -B -f tests/conformance/tiered/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/build/conformance/4.1.0/lib
	for version in $(OTHER_RELEASES); do mvn -q -B -f tests/conformance/broker/pom.xml dependency:copy-dependencies -Dkafka.version=$$version -DoutputDirectory=$(CURDIR)/build/conformance/$$version/lib || exit 1; done
	mvn -q -B dependency:copy -Dartifact=org.apache.kafka:kafka-tools:4.4.0 -DoutputDirectory=$(CURDIR)/build/conformance/4.4.0/lib
	mvn -q -B dependency:copy -Dartifact=org.apache.kafka:connect-file:4.1.0 -DoutputDirectory=$(CURDIR)/build/conformance/4.1.0/lib
	for version in $(METADATA_RELEASES); do mvn -q -B dependency:copy -Dartifact=org.apache.kafka:kafka-metadata:$$version -DoutputDirectory=$(CURDIR)/build/conformance/messages/$$version || exit 1; done
	touch $@

# The linter of prose: no lock file, since one records the registry's addresses.
tools/prose/node_modules/.installed: tools/prose/package.json
	@tools/prerequisites lint
	cd tools/prose && npm install --silent --no-package-lock --no-audit --no-fund && touch node_modules/.installed

.venv/.tools: pyproject.toml constraints.txt | prerequisites
	$(PYTHON) -m venv .venv && .venv/bin/pip install --upgrade pip
	.venv/bin/pip install --group dev && touch $@

.venv/.developed: .venv/.tools $(RUST)
	.venv/bin/maturin develop --quiet --extras spark && touch $@

# Compiled against the newest Spark that is supported, and tested on the oldest too.
$(JAR): .venv/.developed tools/jar $(shell find java rust/jvm -type f)
	tools/jar "$$(.venv/bin/python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')/jars" $@

target/checked/.compiled: $(RUST) | prerequisites
	cargo test --profile checked --quiet $(CRATES) --no-run && touch $@

# A wheel, not an editable install: what users get is what this one tests.
.venv-oldest/.installed: .venv/.developed $(JAR) constraints-oldest.txt $(shell find src -name '*.py')
	$(PYTHON) -m venv .venv-oldest && .venv-oldest/bin/pip install --upgrade pip
	rm -rf build/wheels && .venv/bin/maturin build --quiet --release --interpreter .venv/bin/python --out build/wheels
	PIP_CONSTRAINT=constraints-oldest.txt .venv-oldest/bin/pip install --force-reinstall build/wheels/*.whl 'pyspark==4.1.0' fsspec pytest pytest-randomly && touch $@
