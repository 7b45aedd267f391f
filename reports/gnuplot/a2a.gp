# One all-to-all against another, for each d.  The range of y is limited: one far ratio must not flatten the others.
stats data using 2 nooutput
wide = 4*STATS_up_quartile - 3
wide = wide > 1.2 ? wide : 1.2
set yrange [(STATS_min < 0.95 ? 0.97*STATS_min : 0.92):(STATS_max < wide ? (STATS_max > 1.1 ? 1.03*STATS_max : 1.13) : wide)]
set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lt 8
# Without this, short names in the legend stand too close.
set key width 2
plot for [i=0:3] data index i using (at($1,i)):2:3:4 with yerrorbars lt (i+1) title columnheader(1), \
     for [i=0:3] data index i using 1:2:(hover(sprintf('c = %d: %.3f%s', $1, $2, ends('%.3f', $3, $4)))) with labels left font ',0.01' notitle
