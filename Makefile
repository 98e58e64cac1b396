# Quell's commands for people. `make` alone lists them.

CARGO  ?= $(or $(shell command -v cargo 2>/dev/null),$(wildcard $(HOME)/.cargo/bin/cargo),cargo)
TARGET := $(or $(CARGO_TARGET_DIR),target)
# How it is optimised; `quick`, to try what takes long otherwise.
PROFILE ?= release
QUELL  := $(TARGET)/$(PROFILE)/quell
# Not optimised, and built in a fifth of the time: what `make demo` and `make kernel` use.
QUICK  := $(TARGET)/quick/quell
# Which cargo and linker build for this machine and for arm64; what a static program is built for: musl where its standard library is installed,
# else glibc.
ARCH   := $(shell uname -m)
STD     = $(wildcard $(shell $(or $(RUSTC),rustc) --print target-libdir --target $(1) 2>/dev/null)/libstd-*)
MUSL   := $(ARCH)-unknown-linux-musl
STATIC  = $(if $(call STD,$(MUSL)),$(MUSL),$(ARCH)-unknown-linux-gnu)
ARM64  := aarch64-unknown-linux-gnu

PREFIX  ?= /usr/local
DESTDIR ?=
SHARE   := $(DESTDIR)$(PREFIX)/share
# Where the system looks for services.
UNITS   ?= $(PREFIX)/lib/systemd/system

# Where tests write that they were left out, and why.
LEFT_OUT := $(TARGET)/tests-left-out
# Where runs of `make demo` are kept.
RUNS ?= runs
# How long `make fuzz` gives each target, in seconds.
FUZZ_TIME ?= 600
# How many lines `make bench-twin` learns.
LINES ?= 200
# Which kernel the lab's is built from, as KERNEL_OPTIONS="--source linux-6.1.tar.xz" or "--version 6.12".
KERNEL_OPTIONS ?=

# Quell has a program for the kernel's BPF machine in it, which clang compiles.
BUILD_PACKAGES  := gcc libc6-dev clang
KERNEL_TOOLS    := flex bison bc libelf-dev libssl-dev make xz-utils
KERNEL_PACKAGES := $(KERNEL_TOOLS) $(if $(KERNEL_OPTIONS),,linux-source-6.1)
# Tests begin to build Debian's kernel, whichever is used and though it may be built already.
TEST_PACKAGES   := $(BUILD_PACKAGES) $(KERNEL_TOOLS) linux-source-6.1 nodejs

.DEFAULT_GOAL := help
.PHONY: help demo test test-long check confusion papers bench bench-twin book fuzz kernel build static deb arm64 dist builds install cargo packages

help: ## List these commands
	@echo "make COMMAND, where COMMAND is:"
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1\t\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS="$$(printf '\t')" read -r name text; do \
	    printf '  %-10s %s\n' "$$name" "$$text"; done

demo: kernel ## Run the experiment home-link and write its report (installs what is missing)
	@mkdir -p "$(RUNS)"
	@$(QUICK) run home-link --out "$(RUNS)" --report "$(RUNS)/demo.html"; status=$$?; \
	if [ $$status -le 1 ]; then echo "Open $(abspath $(RUNS))/demo.html in a browser."; fi; exit $$status

test: cargo ## Run all tests, those in the lab's kernel included (installs what is missing)
	@tools/need-packages $(TEST_PACKAGES)
	@tools/need-packages iperf3 fping iproute2 mandoc ethtool tcpdump || echo "The tests against what is missing are left out."
	@tools/need-packages python3-venv && tools/need-python $(TARGET)/python || echo "The tests of Python's examples in docs/data.md are left out."
	@tools/need-packages flent || echo "The test against real Flent is left out."
	@tools/need-packages openssh-client || echo "The tests of experiments between real hosts are left out."
	@tools/need-packages rsync || echo "The test of a collector's copy is left out."
	@tools/need-packages chromium || echo "The tests with a real browser are left out."
	@tools/need-packages qemu-system-x86 mmdebstrap e2fsprogs && tools/debian --make || echo "The tests on a real Debian machine are left out."
	@tools/unpacked $(TARGET)/unpacked nats-server openssh-server prometheus rclone parallel slurmctld slurmd slurm-client munge || \
	    echo "The tests with servers of others are left out."
	$(CARGO) build --locked --workspace --all-targets
	@$(TARGET)/debug/quell-kernel $(KERNEL_OPTIONS)
	@rm -f "$(LEFT_OUT)"
	@export QUELL_TESTS_LEFT_OUT="$(abspath $(LEFT_OUT))" QUELL_TEST_PYTHON="$(abspath $(TARGET))/python/bin/python3"; \
	tools/tests $(CARGO); status=$$?; tools/left-out "$(LEFT_OUT)" || status=1; exit $$status

test-long: kernel ## Run what `make test` leaves out: experiments on ten seeds, a second kernel, programs killed at 200 instants (hours)
	@tools/need-packages $(TEST_PACKAGES) linux-source-6.12
	$(TARGET)/quick/quell-kernel --version 6.12
	QUELL_TEST_SEEDS="1 2 3 4 5 6 7 8 9 10" $(CARGO) test --locked -p quell --test lab -- seeds:: sweep::
	$(CARGO) test --locked -p quell --test lab -- --ignored parts::
	$(CARGO) test --locked -p quell --test commands -- --ignored ten_thousand::
	$(CARGO) test --locked -p quell --test debian -- --ignored two::
	QUELL_KILLS=200 $(CARGO) test --locked -p quell --test commands killed
	$(CARGO) test --locked -p quell-kernel --lib -- --ignored
	@tools/unpacked $(TARGET)/unpacked nats-server rclone && tools/need-packages python3-venv
	python3 -m venv $(TARGET)/moto && $(TARGET)/moto/bin/pip install --quiet 'moto[server]==5.2.1'
	QUELL_TEST_MOTO="$(abspath $(TARGET))/moto/bin/python3" $(CARGO) test --locked -p quell-mesh --test broker -- --ignored thousand s3

check: cargo ## Check format, lints, layers, licences and documents
	@tools/need-packages $(BUILD_PACKAGES)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	CUSTOM_LIBFUZZER_PATH=/nowhere/libfuzzer.a $(CARGO) check --locked --quiet --manifest-path fuzz/Cargo.toml --target-dir $(TARGET)
	$(CARGO) test --locked -p quell-house

confusion: cargo kernel ## Print what each instrument says of worlds whose cause is known, against what is true (minutes)
	@tools/need-packages $(BUILD_PACKAGES) iproute2 tcpdump
	$(CARGO) test --locked -p quell --test lab confusion::the_whole_table -- --ignored --nocapture

papers: cargo kernel ## Print what papers published beside what the lab measures, with five seeds each (minutes)
	@tools/need-packages $(BUILD_PACKAGES)
	$(CARGO) test --locked -p quell --test lab papers::the_whole_table -- --ignored --nocapture

bench: build kernel ## Measure classifier, shaping, lab, flows, round trips (beside the peers that are there) (13 minutes, on a quiet machine)
	@tools/need-packages $(BUILD_PACKAGES)
	@tools/need-packages iperf3 nuttcp irtt fping iproute2 || echo "Comparisons with what is missing are left out."
	$(CARGO) build --locked --release -p quell-bench
	@$(TARGET)/release/quell-bench all --quell $(QUELL)

bench-twin: build kernel ## Learn 200 hidden lines (as many as LINES says) in the lab, and count what is told wrong (hours)
	$(CARGO) build --locked --release -p quell-bench
	@$(TARGET)/release/quell-bench twin --rounds $(LINES) --quell $(QUELL)

book: cargo ## Build docs/ as a book, its links checked: TARGET/book/index.html
	$(CARGO) test --locked --quiet -p quell-house --test house -- links book
	$(CARGO) install --quiet --locked --root "$(TARGET)/tools" mdbook@0.5.4
	$(TARGET)/tools/bin/mdbook build --dest-dir "$(abspath $(TARGET))/book"

fuzz: cargo ## Fuzz all that reads from networks and files, each for FUZZ_TIME seconds (needs a nightly compiler)
	@cargo +nightly --version >/dev/null 2>&1 || { echo "A nightly compiler is missing: rustup toolchain install nightly" >&2; exit 1; }
	@tools/need-packages $(BUILD_PACKAGES) g++
	FUZZ_TIME=$(FUZZ_TIME) tools/fuzz run

kernel: cargo packages ## Build the lab's kernel, unless it is there, and quell beside it (installs what is missing)
	@CARGO="$(CARGO)" tools/quick "$(TARGET)" $(KERNEL_OPTIONS)

build: cargo packages ## Build quell itself
	$(CARGO) build --locked --profile $(PROFILE) -p quell

static: cargo ## Build quell as one file that runs on any Linux of this architecture
	@tools/need-packages $(BUILD_PACKAGES) $(if $(call STD,$(MUSL)),musl-tools)
	@test -n "$(call STD,$(MUSL))" || echo "No standard library for $(MUSL) is installed (rustup target add $(MUSL)): glibc is linked statically."
	CARGO_TARGET_$(shell echo $(STATIC) | tr a-z- A-Z_)_RUSTFLAGS="-C target-feature=+crt-static" \
	    $(CARGO) build --locked --profile $(PROFILE) -p quell --target $(STATIC)
	@echo "$(TARGET)/$(STATIC)/$(PROFILE)/quell"

deb: cargo ## Build a Debian package of quell
	@tools/need-packages $(BUILD_PACKAGES) binutils dpkg-dev
	$(CARGO) build --locked --profile $(PROFILE) -p quell
	@MAKE="$(MAKE)" tools/deb "$(TARGET)" "$(QUELL)"

arm64: cargo ## Build quell as one file for 64-bit ARM
	@test -n "$(call STD,$(ARM64))" || { echo "No standard library for $(ARM64) is installed. One of these helps:" >&2; \
	    echo "  rustup target add $(ARM64)" >&2; \
	    echo "  dpkg --add-architecture arm64, then Debian's rustc-web, cargo-web and libstd-rust-web-dev:arm64 (docs/install.md)" >&2; exit 1; }
	@tools/need-packages $(BUILD_PACKAGES) gcc-aarch64-linux-gnu libc6-dev-arm64-cross
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUSTFLAGS="-C target-feature=+crt-static" \
	    $(CARGO) build --locked --profile $(PROFILE) -p quell --target $(ARM64)
	@echo "$(TARGET)/$(ARM64)/$(PROFILE)/quell"

dist: deb static kernel ## Make what a release page holds, in TARGET/dist: programs, package, lab's kernel, bill of materials, checksums (an hour of CPU)
	@CARGO="$(CARGO)" MAKE="$(MAKE)" tools/dist "$(TARGET)" "$(PROFILE)" "$(TARGET)/$(STATIC)/$(PROFILE)/quell" "$(if $(call STD,$(ARM64)),$(ARM64))"

builds: cargo ## Try what `make deb`, `make static` and `make arm64` bring, in short: built without optimising, and used
	@tools/need-packages $(BUILD_PACKAGES)
	$(CARGO) build --locked --workspace --all-targets
	@CARGO="$(CARGO)" tools/try-builds "$(TARGET)" "$(TARGET)/debug/quell"

install: ## Copy quell to $(DESTDIR)$(PREFIX)/bin; its service, manual pages and completions
	@test -x "$(QUELL)" || $(MAKE) build
	install -D -m 755 "$(QUELL)" "$(DESTDIR)$(PREFIX)/bin/quell"
	$(QUELL) man --folder "$(SHARE)/man/man1" >/dev/null
	chmod 644 "$(SHARE)"/man/man1/quell*.1
	install -d "$(SHARE)/bash-completion/completions" "$(SHARE)/zsh/site-functions" "$(SHARE)/fish/vendor_completions.d"
	$(QUELL) completions bash >"$(SHARE)/bash-completion/completions/quell"
	$(QUELL) completions zsh >"$(SHARE)/zsh/site-functions/_quell"
	$(QUELL) completions fish >"$(SHARE)/fish/vendor_completions.d/quell.fish"
	install -d "$(DESTDIR)$(UNITS)"
	for unit in quell-serve quell-agent quell-ping@; do \
	    sed 's|@BINDIR@|$(PREFIX)/bin|' "packaging/$$unit.service" >"$(DESTDIR)$(UNITS)/$$unit.service"; \
	    chmod 644 "$(DESTDIR)$(UNITS)/$$unit.service"; \
	done
	install -D -m 644 packaging/grafana-dashboard.json "$(DESTDIR)$(PREFIX)/share/quell/grafana-dashboard.json"
	install -D -m 644 LICENSE-MIT "$(DESTDIR)$(PREFIX)/share/doc/quell/LICENSE-MIT"
	install -D -m 644 LICENSE-APACHE "$(DESTDIR)$(PREFIX)/share/doc/quell/LICENSE-APACHE"

cargo:
	@$(CARGO) --version >/dev/null 2>&1 || { echo "Rust is missing: install it from https://rustup.rs and try again." >&2; exit 1; }

# Everything at once, so that a password is asked for once; only what linking needs where the kernel is there already.
packages:
	@if $(TARGET)/quick/quell-kernel --find $(KERNEL_OPTIONS) >/dev/null 2>&1; then tools/need-packages $(BUILD_PACKAGES); \
	else tools/need-packages $(BUILD_PACKAGES) $(KERNEL_PACKAGES); fi
