# libmoelookup, a part of db/ alone, for other people's programs; and libmoetune, the store, the search and what asks
# them, for trainers that tune themselves.  Their objects are the program's.  Included by ../../Makefile.

LIB := $(BUILD)$(if $(filter 0,$(SQLITE)),/packed)
LIB_LIBS = $(if $(filter 0,$(SQLITE)),,-lsqlite3)
LIB_VERSION := 1
LIB_PARTS := $(basename $(wildcard db/lookup/*.c db/values/declar*.c)) \
    $(addprefix db/values/,buckets claim json_text plan seal shape shares sha256 status text width)
TUNER_PARTS := $(LIB_PARTS) $(addprefix db/values/,cluster input_file json node_rows output_file phase stats) \
    $(basename $(wildcard db/store/*.c search/*.c tuner/bucket/*.c tuner/live/*.c))
# The library has another name to speak by.
LIB_OBJECTS := $(patsubst $(LIB)/db/values/status.o,$(LIB)/library/db/values/status.o,$(LIB_PARTS:%=$(LIB)/%.o))
TUNER_OBJECTS := $(TUNER_PARTS:%=$(LIB)/%.o)

library: $(LIB)/libmoelookup.so $(LIB)/libmoelookup.a
ifneq ($(SQLITE),0)
library: $(LIB)/libmoetune.so $(LIB)/libmoetune.a
endif

$(LIB_OBJECTS) $(TUNER_OBJECTS): OWN += $(SHARED)
$(LIB)/library/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(TELL)$(CC) $(ALL_CFLAGS) -DSTATUS_SPEAKER='"moelookup"' -c -o $@ $<
$(BUILD)/packed/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(Q)$(TELL)$(CC) $(ALL_CFLAGS) -DMOELOOKUP_NO_SQLITE -c -o $@ $<
# Another PREFIX is another search path.
$(LIB)/db/lookup/lookup_open.o: OWN += -DMOETUNE_PREFIX='"$(PREFIX)"'
$(LIB)/db/lookup/lookup_open.o: $(BUILD)/prefix

LINK_LIBRARY = $(Q)$(LIB_CC) $(CFLAGS) $(SANITIZE) -shared -Wl,-soname,$(@F) -Wl,--version-script=$(filter %.map,$^) \
    $(if $(SANITIZE),,-Wl,-z,defs) -Wl,--as-needed -o $@ $(filter %.o,$^) $(LIB_LIBS) -lm
$(LIB)/libmoelookup.so.$(LIB_VERSION): $(LIB_OBJECTS) db/lookup/moelookup.map
	$(LINK_LIBRARY)
$(LIB)/libmoetune.so.$(LIB_VERSION): $(TUNER_OBJECTS) tuner/live/moetune.map
	$(LINK_LIBRARY)
$(LIB)/lib%.so: $(LIB)/lib%.so.$(LIB_VERSION)
	$(Q)ln -sfn $(<F) $@

# One object in which everything is local but the library's own names, so that no name of ours meets one of the
# program's.  libmoetune has the names of libmoelookup, too, and a program may link both archives.
$(LIB)/libmoelookup.a: $(LIB_OBJECTS)
	$(Q)ld -r -o $(LIB)/library/moelookup.o $^
	$(Q)objcopy --localize-hidden $(LIB)/library/moelookup.o
	$(Q)rm -f $@ && ar rcs $@ $(LIB)/library/moelookup.o
$(LIB)/libmoetune.a: $(TUNER_OBJECTS)
	@mkdir -p $(LIB)/library
	$(Q)ld -r -o $(LIB)/library/moetune.o $^
	$(Q)objcopy --wildcard --keep-global-symbol='moetune_*' $(LIB)/library/moetune.o
	$(Q)rm -f $@ && ar rcs $@ $(LIB)/library/moetune.o
