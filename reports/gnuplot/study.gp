# Draws one table of a study: our numbers and the published ones in one colour.  Columns: place; our number; published
# number that ours predicts; published number that ours was fitted to; name of the place.
set xrange [-0.4:places-0.6]
set grid noxtics
ours = "for [i=0:series-1] data index i using 1:2 with linespoints lt (i+1) lw 1.5 title columnheader(1)"
theirs = ", for [i=0:series-1] data index i using 1:(valid(3) ? $3 : $4) with lines dt 2 lt (i+1) notitle"
rings = ", for [i=0:series-1] data index i using 1:3 with points lt (i+1) pt 6 ps 1.1 notitle"
crosses = ", for [i=0:series-1] data index i using 1:4 with points lt (i+1) pt 1 ps 1.1 notitle"
hovers = ", for [i=0:series-1] data index i using 1:2:(hover(sprintf('%s: %.4g', stringcolumn(5), $2))) with labels left font ',0.01' notitle"
eval "plot ".ours.(predicted || fitted ? theirs : '').(predicted ? rings : '').(fitted ? crosses : '').hovers
