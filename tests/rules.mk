# Tests and benchmarks.  Included by ../Makefile.

# Programs and their parts lie in one folder of the build, whatever room their source is in.
TEST_ROOMS := $(addprefix tests/,unit bench fuzz program)
vpath %.c $(TEST_ROOMS)
tests_of = $(patsubst %.c,$(BUILD)/tests/%$2,$(notdir $1))
# What is written for an MPI or for OpenBLAS itself.
WANTING := $(if $(NO_MPI),$(shell grep -lE 'include [<"](moelookup_)?mpi.h' $(wildcard tests/*/*.c))) \
    $(if $(NO_BLAS),$(shell grep -l '<cblas.h>' $(wildcard tests/*/*.c)))
# These replace functions of the program, so they are programs of their own.
WRAPPING := $(patsubst %,tests/unit/test_%.c,broken_models live_share made_ranks)
UNIT_TESTS ?= $(patsubst tests/unit/test_%.c,%,$(filter-out $(WANTING) $(WRAPPING),$(wildcard tests/unit/test_*.c)))
ALONE := $(WRAPPING) $(wildcard tests/program/example_*.c tests/fuzz/fuzz_*.c) tests/unit/factor_one.c \
    tests/bench/judge_searches.c
TEST_PARTS := $(filter-out tests/bench/bench_% tests/unit/test_% tests/unit/unit.c $(ALONE),\
    $(wildcard $(TEST_ROOMS:%=%/*.c)))
BENCHES := $(call tests_of,$(filter-out $(WANTING),$(wildcard tests/bench/bench_*.c)))
TESTS := $(UNIT_TESTS:%=$(BUILD)/tests/test_%) $(call tests_of,$(filter-out $(WANTING),$(ALONE)))

$(BUILD)/tests/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(TELL)$(CC) $(ALL_CFLAGS) $(TEST_ROOMS:%=-I%) -c -o $@ $<
# To compile them takes longer than they do: -O1, in two thirds of the time.
$(UNIT_TESTS:%=$(BUILD)/tests/test_%.o): OWN += -Dmain=main_of_$(*F) -O1

# What tests take from: all of the program, or the objects that the caller names.
$(BUILD)/tests/members: FORCE
	$(call flags_file,$(OBJECTS))
$(BUILD)/tests/moetune.a: $(or $(OBJECTS:%=$(BUILD)/%),$(LIBRARY)) $(BUILD)/tests/members
	$(ARCHIVE)
$(BUILD)/tests/parts.a: $(call tests_of,$(TEST_PARTS),.o)
	$(ARCHIVE)
TEST_ARCHIVES := $(BUILD)/tests/parts.a $(BUILD)/tests/moetune.a
LINK_TEST = $(LINK) $(WRAPPED:%=-Wl,--wrap=%) $^ $(LDLIBS)
$(BENCHES) $(call tests_of,$(ALONE)): $(BUILD)/tests/%: $(BUILD)/tests/%.o $(TEST_ARCHIVES)
	$(LINK_TEST)
# They tune by ranks whose times are made up: tests/bench/made_ranks.h.
MADE_RANKS := crew_open crew_close crew_do crew_relaunch crew_launch_ns
$(BUILD)/tests/bench_claims $(BUILD)/tests/test_made_ranks: WRAPPED := $(MADE_RANKS)
# What is believed is broken in them: tests/unit/broken_model.h.
BROKEN_MODEL := costs_log_ns costs_gradient posterior_renew likeness_table_set
$(BUILD)/tests/bench_live $(BUILD)/tests/test_live_share: WRAPPED := $(BROKEN_MODEL)
$(BUILD)/tests/test_broken_models: WRAPPED := $(BROKEN_MODEL) $(MADE_RANKS)
$(BUILD)/tests/fuzz_%: SANITIZE += $(if $(filter fuzz,$(SAN)),-fsanitize=fuzzer)

# Unit tests are one program, linked once: its name, or its first word, says which of them runs (tests/unit/unit.c).
# UNIT,TEST:SOURCE...: the object that knows these tests.
define unit_table
$1.inc: FORCE
	$$(Q)mkdir -p $$(@D) && for t in $2; do echo "UNIT($$$${t%:*}, main_of_$$$${t#*:})"; done >$$@.new; \
	    cmp -s $$@.new $$@ || cp $$@.new $$@
$1.o: tests/unit/unit.c $1.inc $(BUILD)/flags
	$$(Q)$$(CC) $$(ALL_CFLAGS) -DUNIT_TABLE='"$1.inc"' -I. -c -o $$@ $$<
endef
$(eval $(call unit_table,$(BUILD)/tests/unit,$(foreach t,$(UNIT_TESTS),$t:test_$t)))
$(BUILD)/tests/unit: $(BUILD)/tests/unit.o $(UNIT_TESTS:%=$(BUILD)/tests/test_%.o) $(TEST_ARCHIVES)
	$(LINK_TEST)
unit-tests: $(UNIT_TESTS:%=$(BUILD)/tests/test_%)
$(UNIT_TESTS:%=$(BUILD)/tests/test_%): $(BUILD)/tests/unit
	$(Q)ln -f $< $@

# Those that are ranks, without an MPI as well; and the program.
RANK_TESTS := comm exec relay routers replayed hidden uneven
$(BUILD)/forked/moetune.a: $(BY_FORK) $(BUILD)/tests/members
	$(ARCHIVE)
$(eval $(call unit_table,$(BUILD)/forked/tests/unit,$(foreach t,$(RANK_TESTS),$t:test_$t)))
$(BUILD)/forked/tests/unit: $(BUILD)/forked/tests/unit.o $(RANK_TESTS:%=$(BUILD)/tests/test_%.o) \
    $(BUILD)/tests/parts.a $(BUILD)/forked/moetune.a
	$(Q)$(LIB_CC) $(CFLAGS) $(SANITIZE) -pthread -o $@ $^ $(LDLIBS)
$(BUILD)/tests/moetune_forked: $(BUILD)/tuner/main.o $(BY_FORK)
	@mkdir -p $(@D)
	$(Q)$(LIB_CC) $(CFLAGS) $(SANITIZE) -pthread -o $@ $^ $(LDLIBS)

# What threads share is also run under ThreadSanitizer, whatever this build is: the objects that these tests take.
THREADED := stream lookup lookup_record push loans policy_thread declared_plans
TSAN_BUILD := build/cpu$(LACKS)-tsan
$(BUILD)/tests/threaded.list: $(BUILD)/tests/unit
	$(Q)$(LIB_CC) -r -nostdlib -Wl,--trace -o $@.o $(THREADED:%=$(BUILD)/tests/test_%.o) $(TEST_ARCHIVES) \
	    $(TEST_ARCHIVES) >$@.trace
	$(Q)sed -n 's|^$(BUILD)/tests/\.\./||p' $@.trace | sort -u >$@
threads-built: $(BUILD)/tests/threaded.list
	$(Q)$(MAKE) --no-print-directory GPU=0 SAN=thread UNIT_TESTS='$(THREADED)' unit-tests \
	    OBJECTS="$$(grep -vxE '($(subst $() ,|,$(basename $(UNIT_SOURCES) $(CUDA_KERNELS)))).o' $< | tr '\n' ' ')"

tests-built: $(TESTS) $(BUILD)/forked/tests/unit $(BUILD)/tests/moetune_forked
	@$(WIPE)
ifeq ($(SAN),0)
tests-built: threads-built
endif
benches-built: $(BENCHES) $(BUILD)/tests/judge_searches

# ---- Running them.  What make tells its own makes about jobs is no business of the makes in tests.

# In the place of the shell, so that make's signals reach it.
RUN = $(Q)MAKEFLAGS='$(filter-out -j% --jobserver%,$(MAKEFLAGS))' exec tests/run
# In a make of its own, which sees what was installed.
check: needed
	$(Q)$(MAKE) --no-print-directory run-check
run-check: build check-built
	$(RUN) --check $(BUILD)
check-built: $(TESTS) $(BUILD)/forked/tests/unit
test test-full test-clients: deps
	$(Q)$(MAKE) --no-print-directory run-$@
run-test: build tests-built
	$(RUN) $(BUILD)
run-test-full: build tests-built
	$(RUN) --full $(BUILD)
run-test-clients: build
	$(Q)tests/program/test_clients $(BUILD)

bench: all
	$(Q)$(MAKE) --no-print-directory benches-built
	$(Q)tests/bench/run $(BUILD)
bench-%: all
	$(Q)$(MAKE) --no-print-directory benches-built
	$(Q)tests/bench/run $(BUILD) $*

# Kills, damaged tables, files and texts (libFuzzer, which needs clang), many readers, for longer than the tests do.
SOAK_KILLS ?= 1000
SOAK_SECONDS ?= 60
FUZZERS := lookup import texts following
soak: all
	$(Q)$(MAKE) --no-print-directory tests-built
	$(Q)$(MAKE) --no-print-directory SAN=fuzz $(FUZZERS:%=build/cpu-fuzz/tests/fuzz_%)
	$(Q)tests/program/soak $(BUILD) $(SOAK_KILLS) $(SOAK_SECONDS)

.DELETE_ON_ERROR:
.SECONDARY: $(BENCHES:%=%.o) $(TESTS:%=%.o)
.PHONY: unit-tests threads-built tests-built benches-built check run-check check-built test test-full test-clients run-test \
    run-test-full run-test-clients bench soak
