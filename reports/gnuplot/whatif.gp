# The first pair of layers: one line for each router with each all-to-all.
set logscale xy 2
plot for [i=0:4] data index i using 1:2:(f($2,$3)):(f($2,$4)) with yerrorbars lt (i+1) title columnheader(1), \
     for [i=0:4] data index i using 1:2 with lines lt (i+1) notitle, \
     for [i=0:4] data index i using 1:2:(hover(sprintf('c = %d: %s, %s: %.4g ms, %.4g MiB between nodes', $1, columnheader(1), stringcolumn(8), $2, $5))) with labels left font ',0.01' notitle
