# The commands of the house. `make` alone lists them.
#
#   make run ARGS='--config holdline.toml'      make bench ARGS='memory'

.DEFAULT_GOAL := help
.PHONY: help run test bench crash soak cluster fuzz check deny mutants book package image tarball release

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
CLIENTS := $(abspath $(or $(HOLDLINE_E2E_CLIENTS),$(TARGET_DIR)/e2e-clients))

# What `holdline --version` says: the version, and of which commit.
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml) ($(or $(shell git describe --always --dirty --abbrev=12 2>/dev/null),no commit))
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
BUILD = HOLDLINE_VERSION="$(VERSION)" cargo build --release

help: ## list these commands
	@sed -n 's/^\([a-z]*\):[a-z ]* ## /  make \1\t/p' $(MAKEFILE_LIST)

run: ## build the server and start it, with files of chat in data/media; ARGS go to `holdline serve`
	@scripts/toolchain.sh
	@test -x $(TARGET_DIR)/quick/holdline || echo 'The first build compiles everything: about four minutes on two cores.'
	HOLDLINE_VERSION="$(VERSION)" cargo build --profile quick -p holdline
	@$(if $(ARGS),,HOLDLINE_MEDIA_FOLDER=$${HOLDLINE_MEDIA_FOLDER-data/media}) exec $(TARGET_DIR)/quick/holdline serve $(ARGS)

test: ## install what the tests need and run all of them, as CI does
	@scripts/test.sh

bench: ## rerun the measurements and store them; ARGS go to the bench
	@scripts/toolchain.sh
	$(BUILD) -p holdline -p sim -p bench
	$(TARGET_DIR)/release/bench run $(ARGS)

crash: ## kill a server under load a thousand times and audit every answer; ARGS go to the harness
	@scripts/toolchain.sh
	$(BUILD) -p holdline -p crash
	$(TARGET_DIR)/release/crash --binary $(TARGET_DIR)/release/holdline $(ARGS)

soak: ## measure other clients while many floods hit a server, for an hour; ARGS go to tests/e2e/soak.py
	@scripts/toolchain.sh
	$(BUILD) -p holdline
	@test -d $(CLIENTS)/protobuf || python3 -m pip install --quiet --target $(CLIENTS)/protobuf \
		-r tests/e2e/im/requirements.txt
	HOLDLINE_E2E_CLIENTS=$(CLIENTS) python3 tests/e2e/soak.py \
		--binary $(TARGET_DIR)/release/holdline $(ARGS)

cluster: ## faults of a cluster under load, 300 of them, and an audit after each; ARGS go to tests/e2e/cluster/faults.py
	@scripts/toolchain.sh
	$(BUILD) -p holdline
	@for it in nats:cluster protobuf:im; do \
		test -d $(CLIENTS)/$${it%:*} || python3 -m pip install --quiet \
			--target $(CLIENTS)/$${it%:*} -r tests/e2e/$${it#*:}/requirements.txt || exit; done
	HOLDLINE_E2E_CLIENTS=$(CLIENTS) python3 tests/e2e/cluster/faults.py \
		--binary $(TARGET_DIR)/release/holdline $(ARGS)

fuzz: ## bend what parsers and machines read, by what it covers, and keep what does; ARGS: batches, a target
	@scripts/toolchain.sh
	cargo xtask fuzz $(ARGS)

package: ## make a Debian package in target/package; HOLDLINE_PACKAGE_BINARY: of this binary
	$(if $(HOLDLINE_PACKAGE_BINARY),,@scripts/toolchain.sh)
	$(if $(HOLDLINE_PACKAGE_BINARY),,$(BUILD) -p holdline)
	@packaging/package.sh

image: package ## make a container's root filesystem of the package, and the image with buildah or docker
	@packaging/image.sh

tarball: ## make a tarball with one static binary in target/package
	@scripts/toolchain.sh
	$(if $(HOLDLINE_PACKAGE_BINARY),,RUSTFLAGS="-C target-feature=+crt-static" $(BUILD) --target $(HOST) -p holdline)
	@packaging/tarball.sh

release: package tarball ## package, tarball, list of libraries, checksums, signature: all that is published
	@packaging/release.sh

deny: ## licences, bans and sources of the dependencies, and advisories where their data is at hand
	@scripts/deny.sh

mutants: ## what small changes of the code no test notices; ARGS: a commit, or --sample 400
	@scripts/mutants.sh $(ARGS)

book: ## make the documentation as a book in target/book; installs mdbook where it is missing
	@command -v mdbook >/dev/null || cargo install --locked mdbook
	@PATH="$(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$$PATH" mdbook build

check: ## formatting, lints, tidy and cargo's tests
	@scripts/toolchain.sh
	cargo xtask check
