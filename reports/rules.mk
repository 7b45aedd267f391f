# gnuplot's programs and the page's style are built in, byte by byte, without the lines that are comments.
bytes_of = sed '/^\#/d; /^\/\*.*\*\/$$/d; /^$$/d' $1 | od -An -v -td1 | sed 's/[0-9]\+/&,/g'
REPORT_SCRIPTS := $(sort $(wildcard reports/gnuplot/*.gp))
# Their names: one that is gone is built in no more.
$(BUILD)/report_scripts.list: FORCE
	$(call flags_file,$(REPORT_SCRIPTS))
$(BUILD)/report_scripts.inc: $(REPORT_SCRIPTS) $(BUILD)/report_scripts.list
	@mkdir -p $(@D)
	$(Q)for f in $(REPORT_SCRIPTS); do \
	    echo "{ \"$$(basename $$f .gp)\", (const char[]){"; $(call bytes_of,$$f); echo "0 } },"; done >$@
$(BUILD)/page_style.inc: reports/page.css
	@mkdir -p $(@D)
	$(Q)$(call bytes_of,$<) >$@
$(BUILD)/reports/plots.o: $(BUILD)/report_scripts.inc
$(BUILD)/reports/page.o: $(BUILD)/page_style.inc
$(BUILD)/reports/plots.o $(BUILD)/reports/page.o: OWN += -I$(BUILD)

# README's picture, drawn again from the database that lies beside it: measured as README says.
picture: $(BUILD)/moetune
	$(Q)work=$$(mktemp -d) && trap 'rm -rf $$work' EXIT && \
	    sqlite3 $$work/example.db <reports/example.sql && \
	    $< report --db $$work/example.db -o $$work/report --format svg >/dev/null && \
	    cp $$work/report/layer1_times.svg reports/example.svg
.PHONY: picture
