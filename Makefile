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
RUST := Cargo.toml Cargo.lock .cargo/config.toml $(shell find rust/*/src rust/*/Cargo.toml rust/*/build.rs -type f)
JAR := src/brokerless/spark/brokerless.jar

.PHONY: help sdist setup prerequisites develop demo check check-lint check-core check-unit test test-core test-oldest test-python test-engines test-jar hunt lint conformance promises everything bench fuzz sanitize docs wheels untested-wheel test-installed audit coverage site reliability msrv

setup: prerequisites .venv/.developed build/native/.built $(JAR)  ## .venv with the package, its spark extra and the command

prerequisites:
	@tools/prerequisites

help:  ## what each target does
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-15s%s\n' "$$name" "$$text" | fold -s -w 110 | sed '2,$$s/^/               /'; done

develop: .venv/.developed  ## rebuild the extension now
	$(PYTHON) tools/native.py && touch build/native/.built

demo: setup  ## the main job: sample logs -> Spark table -> Parquet
	.venv/bin/python examples/demo.py

check: check-lint check-core check-unit  ## the quick loop: linters of what has changed, the core's tests without fuzzing, tests/unit without the slow ones

check-lint: setup .venv/.tools
	$(STEP) lint tools/lint --changed

check-core: | prerequisites
	$(STEP) core $(PYTHON) tools/cargo.py checked test --profile checked --quiet $(CRATES) --lib $(CORE_TESTS)

check-unit: setup .venv/.tools
	$(STEP) unit $(PYTEST) tests/unit -m "not slow" --hypothesis-profile=dev $(AT_ONCE) worksteal

# Runs a command as a step of a check, and tells its time.
STEP := $(PYTHON) tools/step
CRATES := --package brokerless-core --package brokerless-jvm --package brokerless-serve --package brokerless-values
CORE_TESTS := $(addprefix --test ,$(filter-out data support,$(basename $(notdir $(wildcard rust/core/tests/*)))))
PYTEST := .venv/bin/python -m pytest --durations=30 --durations-min=1
PYTEST_OLDEST := .venv-oldest/bin/python -m pytest --durations=30 --durations-min=1

test: test-core test-oldest test-python test-engines test-jar  ## all that needs no Kafka; golden reads and streams also on the oldest Spark, and reads also in the JVM

test-core: | prerequisites  ## the crates of Rust, and hostile bytes for FUZZ_SECONDS (20)
	@export FUZZ_SECONDS=$(or $(FUZZ_SECONDS),20) FUZZ_SEED=$${FUZZ_SEED:-$$(date +%s)}; echo "fuzzing: FUZZ_SEED=$$FUZZ_SEED"; $(STEP) core $(PYTHON) tools/cargo.py checked test --profile checked --quiet $(CRATES)

test-oldest: .venv-oldest/.installed  ## the oldest releases of Spark, pyarrow and fsspec
	$(STEP) oldest-spark $(PYTEST_OLDEST) tests/spark/test_golden.py tests/spark/test_stream.py tests/unit/io/test_remote.py

test-python: setup .venv/.tools .venv/spark.jsa  ## the tests of Python, but conformance
	@tools/prerequisites browser
	$(STEP) python $(PYTEST) --hypothesis-profile=ci $(AT_ONCE) worksteal

test-engines: .venv-engines/.installed  ## the recipes for engines, and the notebook, with engines that need another pyarrow
	$(STEP) engines env BROKERLESS_ENGINES=1 .venv-engines/bin/python -m pytest tests/engines

# What a reader or a writer in the JVM could do otherwise. The driver does the same as without it.
TASKS := "not conformance and not again and not driver"
IN_JVM := $(addprefix tests/spark/test_,golden.py source.py sink.py stream.py stream_sink.py decoding.py decoding_everywhere.py kills.py jar.py jar_writes.py jar_cancelled.py jar_damage.py jar_decoding.py jar_filters.py jar_leaks.py jar_loading.py)
OLDEST_IN_JVM := $(addprefix tests/spark/test_,golden.py sink.py stream.py stream_sink.py)
test-jar: setup .venv/.tools .venv/spark.jsa .venv-oldest/.installed  ## the tests of Spark again, with tasks in the JVM
	[ ! -f $(JAR) ] || BROKERLESS_JAR=1 $(STEP) jar $(PYTEST) -m $(TASKS) $(IN_JVM)
	[ ! -f $(JAR) ] || BROKERLESS_JAR=1 $(STEP) jar-oldest-spark $(PYTEST_OLDEST) -m $(TASKS) $(OLDEST_IN_JVM)

hunt: setup .venv/.tools .venv/spark.jsa  ## seeded damage to logs, read and repaired in every way: HUNT cases (20000) from HUNT_FROM (0) on
	BROKERLESS_HUNT=$(or $(HUNT),20000) BROKERLESS_HUNT_FROM=$(or $(HUNT_FROM),0) $(STEP) hunt $(PYTEST) tests/unit/log/test_hunting.py tests/unit/healing/test_damaged_replicas.py $(AT_ONCE) worksteal
	[ ! -f $(JAR) ] || BROKERLESS_HUNT=$(or $(HUNT),20000) BROKERLESS_JAR=1 $(STEP) hunt-jar $(PYTEST) $(addprefix tests/spark/test_jar_,damage.py decoding.py leaks.py)

lint: setup .venv/.tools tools/prose/node_modules/.installed  ## all linters: of Python, Rust, Java, workflows and prose
	@tools/prerequisites lint
	$(STEP) lint tools/lint

NEEDS_OF_CONFORMANCE := setup .venv/.tools .venv/spark.jsa .venv-oldest/.installed build/.conformance
conformance: $(NEEDS_OF_CONFORMANCE)  ## real Kafka brokers, clients and tools of all releases, an S3 server, Delta Lake and Iceberg, against what we write and read
	$(STEP) conformance $(PYTEST) -m "conformance or again" $(AT_ONCE) loadfile
	[ ! -f $(JAR) ] || BROKERLESS_JAR=1 $(STEP) conformance-jar $(PYTEST) -m "again or driver" $(IN_JVM)
	[ ! -f $(JAR) ] || BROKERLESS_JAR=1 $(STEP) conformance-oldest-spark $(PYTEST_OLDEST) -m "again or driver" $(OLDEST_IN_JVM)

promises: $(NEEDS_OF_CONFORMANCE)  ## the part of conformance that sees each promise once
	$(STEP) promises $(PYTEST) -m "conformance and not again" tests/conformance tests/spark $(AT_ONCE) loadfile

everything:  ## all checks, one after the other, and a table of what passed in what time
	export STEPS=$$(mktemp); for check in lint test test-installed conformance hunt sanitize docs audit bench; do $(STEP) $$check $(MAKE) $$check; done; $(STEP) fuzz $(MAKE) fuzz FUZZ_SECONDS=$(or $(FUZZ_SECONDS),60); $(STEP)

bench: setup .venv/.tools build/.conformance  ## against what users would otherwise run; BENCH="decode encode append convert compact json spark connector jvm jobs scale state check find query serve values spark-values" or some of them
	@tools/prerequisites maven
	.venv/bin/pip install --group bench && .venv/bin/python -m compileall -q src && .venv/bin/python bench/run.py $(BENCH)

fuzz: setup .venv/.tools  ## hostile bytes, guided by coverage: each target for FUZZ_SECONDS (600); FUZZ="decode zstd inputs" or some of them; SANITIZER=address with nightly Rust
	@tools/prerequisites fuzz
	for target in $(or $(FUZZ),inputs $(notdir $(basename $(wildcard rust/fuzz/fuzz_targets/*.rs)))); do if [ $$target = inputs ]; then $(INPUTS); else mkdir -p rust/fuzz/corpus/$$target && $(UNSANITIZED_C) cargo $(if $(SANITIZER),+nightly) fuzz run --fuzz-dir rust/fuzz --sanitizer $(or $(SANITIZER),none) $$target rust/fuzz/corpus/$$target rust/fuzz/seeds/* -- -max_total_time=$(or $(FUZZ_SECONDS),600) -max_len=65536; fi || exit 1; done

# What `produce` and `Producer.send` take; they are Python's and pyarrow's too, which nothing guides through.
INPUTS = mkdir -p rust/fuzz/artifacts && directory=$$(mktemp -d rust/fuzz/artifacts/inputs-XXXXXX) && .venv/bin/python tests/support/hostile_inputs.py $$directory --seed $$(date +%s) --seconds $(or $(FUZZ_SECONDS),600) && rm -rf $$directory || { echo "the input is $$directory/input" >&2; false; }

sanitize:  ## the tests of the core and of its part in the JVM under the address sanitizer, and the core's unsafe part under Miri; needs nightly Rust
	@tools/prerequisites nightly
	$(UNSANITIZED_C) LSAN_OPTIONS=suppressions=$(CURDIR)/rust/jvm/leaks_of_java.txt RUSTFLAGS=-Zsanitizer=address cargo +nightly test --profile checked --quiet $(CRATES) --target $(NATIVE) --target-dir target/sanitize
	cargo +nightly miri test --package brokerless-core --test records both_ways

# gcc's own sanitizer would report a stack use in zstd that is none.
UNSANITIZED_C = CFLAGS=-fno-sanitize=all
NATIVE = $$(rustc -vV | sed -n 's/^host: //p')

wheels: untested-wheel  ## dist/: the source distribution and, from it, the wheel of this platform, tested as a user installs it; PYTHONS="python3.13 ..." to test it on them too, SDIST=FILE to take a source distribution that exists
	$(STEP) installed tools/installed dist/*.whl $(or $(PYTHONS),$(PYTHON))

untested-wheel: .venv-wheels/.installed  ## dist/: the source distribution and the wheel, without the tests
	.venv-wheels/bin/python tools/wheels.py $(if $(SDIST),--sdist "$(SDIST)")

sdist: .venv-wheels/.installed  ## dist/: the source distribution alone
	.venv-wheels/bin/python tools/wheels.py --sdist-only

test-installed: setup  ## what pip builds from the source distribution, as a user installs it
	rm -rf build/sdist && .venv/bin/maturin sdist --out build/sdist
	$(STEP) installed tools/installed build/sdist/*.tar.gz $(PYTHON)

# The site needs no extension: nothing is compiled. With --quiet, --strict would see no warning.
docs: .venv-docs/.installed  ## site/: these documents, with search, a page for each verb and each class, and llms.txt
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --config-file tools/site/mkdocs.yml

site: .venv-docs/.installed  ## build/site.bundle: the branch gh-pages with the documents of VERSION beside those of earlier versions; nothing is pushed
	NO_MKDOCS_2_WARNING=1 PATH="$(CURDIR)/.venv-docs/bin:$$PATH" mike deploy --config-file tools/site/mkdocs.yml --update-aliases "$(VERSION)" $$(tools/site/alias "$(VERSION)")
	.venv-docs/bin/mike set-default --config-file tools/site/mkdocs.yml latest
	tools/site/not_found
	mkdir -p build && git bundle create --quiet build/site.bundle gh-pages

.venv-docs/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-docs && .venv-docs/bin/pip install --upgrade pip
	.venv-docs/bin/pip install --group docs && touch $@

# What builds published files is what was reviewed, byte for byte.
.venv-wheels/.installed: tools/requirements/wheels.txt tools/requirements/spark.txt | prerequisites
	$(PYTHON) -m venv --clear .venv-wheels
	PIP_CONSTRAINT= .venv-wheels/bin/pip install --require-hashes --only-binary :all: --requirement tools/requirements/wheels.txt
	PIP_CONSTRAINT= .venv-wheels/bin/pip install --require-hashes --no-build-isolation --requirement tools/requirements/spark.txt && touch $@

# The jar's native library for the platform of this machine, for the wheels of all platforms.
build/libraries: .venv-wheels/.installed
	.venv-wheels/bin/python tools/wheels.py --library-only --libraries $@ $(if $(SDIST),--sdist "$(SDIST)")

reliability: CHECKS ?= test promises hunt
reliability: setup  ## docs/reliability.md: what the tests try, how often, and how often it holds; CHECKS="test promises hunt" or others
	mkdir -p build && : > build/failed && .venv/bin/python tools/reliability build/tally.jsonl --begin
	for check in $(CHECKS); do BROKERLESS_TALLY=$(CURDIR)/build/tally.jsonl $(MAKE) $$check || echo $$check >> build/failed; done
	.venv/bin/python tools/reliability build/tally.jsonl $(CHECKS) --failed $$(cat build/failed) > build/reliability.md && mv build/reliability.md docs/reliability.md
	[ ! -s build/failed ]

coverage: setup .venv/.tools  ## the lines of Python and Rust that no test of tests/unit, tests/crash and the crates runs; needs the LLVM tools of Rust's LLVM
	.venv/bin/pip install --group coverage && .venv/bin/python tools/coverage

# The release that Cargo.toml promises.
msrv:  ## whether the oldest supported release of Rust compiles all crates
	cargo +"$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)" check --locked --workspace --quiet

audit: prerequisites $(if $(ONLINE),.venv/.packages)  ## licences, sources and bans of crates; DB=DIRECTORY, a clone of RustSec's advisories, and ONLINE=1 also check for known vulnerabilities
	@tools/prerequisites audit $(if $(DB),advisories)
	@cargo fetch --quiet --locked || { echo "make audit reads the manifests of all crates: run 'cargo fetch --locked' where crates.io can be reached, and set CARGO_HOME to the directory that then has them" >&2; exit 1; }
	cargo deny --offline check licenses bans sources
	$(if $(DB),ignored=$$($(PYTHON) tools/ignored_advisories cargo) && cargo audit --db "$(DB)" --no-fetch --deny unsound --deny yanked $$ignored,@echo "note: crates are not checked for vulnerabilities: name a clone of RustSec's database with DB=")
	$(if $(ONLINE),.venv/bin/pip install --group audit && ignored=$$($(PYTHON) tools/ignored_advisories pip) && .venv/bin/pip-audit --strict --requirement constraints.txt --no-deps --disable-pip --progress-spinner off $$ignored,@echo "note: Python packages are not checked for vulnerabilities: ONLINE=1 asks their index")

# Kafka as it is released, and all else that conformance runs.
build/.conformance: .venv/.developed $(shell find tests/conformance -name pom.xml -o -name '*.java' -o -path '*/go/*') tests/conformance/fetch.py tools/kept.py
	@tools/prerequisites maven
	mkdir -p build && .venv/bin/python tests/conformance/fetch.py && touch $@

# The linter of prose, with the checksums of the lock file. No script of a package runs.
tools/prose/node_modules/.installed: tools/prose/package.json tools/prose/package-lock.json
	@tools/prerequisites lint
	cd tools/prose && npm ci --silent --ignore-scripts --no-audit --no-fund && touch node_modules/.installed

build/native/.built: $(RUST) tools/native.py | prerequisites
	$(PYTHON) tools/native.py && touch $@

# What a user needs; what tests and linters need comes with the first of them.
.venv/.packages: pyproject.toml constraints.txt | prerequisites
	$(PYTHON) -m venv .venv && .venv/bin/pip install --upgrade pip
	.venv/bin/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; print(*project["dependencies"], *project["optional-dependencies"]["spark"], sep="\n")' > .venv/requirements.txt
	.venv/bin/pip install --group build --requirement .venv/requirements.txt && touch $@

# Cargo.toml has the version, which the installed metadata have too.
.venv/.developed: .venv/.packages Cargo.toml | build/native/.built
	.venv/bin/pip install --no-deps --no-build-isolation --editable . && touch $@

.venv/.tools: .venv/.developed
	.venv/bin/pip install --group dev && touch $@

# Compiled against the newest Spark that is supported, and tested on the oldest too.
$(JAR): .venv/.packages build/native/.built tools/jar.py $(shell find java -type f)
	$(PYTHON) tools/jar.py "$$(.venv/bin/python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')/jars" && touch -c $@

# For the many starts of Spark in tests.
.venv/spark.jsa: .venv/.packages tests/spark/quick_start.py | $(JAR) .venv/.developed
	.venv/bin/python tests/spark/quick_start.py

# Beside the other packages, because Daft does not allow the newest pyarrow.
.venv-engines/.installed: .venv/.developed pyproject.toml tests/constraints-engines.txt
	$(PYTHON) -m venv .venv-engines && .venv-engines/bin/pip install --upgrade pip
	PIP_CONSTRAINT=tests/constraints-engines.txt .venv-engines/bin/pip install --group engines
	echo "$(CURDIR)/src" > "$$(.venv-engines/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/brokerless.pth" && touch $@

# A wheel, not an editable install: what `pip install .` makes is what this one tests.
.venv-oldest/.installed: .venv/.developed $(JAR) tests/constraints-oldest.txt $(shell find src -name '*.py')
	$(PYTHON) -m venv .venv-oldest && .venv-oldest/bin/pip install --upgrade pip
	rm -rf build/wheels && .venv/bin/pip wheel --no-deps --no-build-isolation --wheel-dir build/wheels .
	PIP_CONSTRAINT=tests/constraints-oldest.txt .venv-oldest/bin/pip install --force-reinstall build/wheels/*.whl 'pyspark==4.1.0' fsspec pytest pytest-randomly
	.venv-oldest/bin/python tests/spark/quick_start.py --no-archive && touch $@
