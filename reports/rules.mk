# README's picture, drawn again from the table that lies beside it: measured as README says.
picture: $(BUILD)/moetune
	$(Q)work=$$(mktemp -d) && trap 'rm -rf $$work' EXIT && \
	    $< import reports/example.jsonl --db $$work/example.db >/dev/null 2>&1 && \
	    $< report --db $$work/example.db -o $$work/report --format svg >/dev/null && \
	    cp $$work/report/layer1_times.svg reports/example.svg
.PHONY: picture
