# Sparse against padded experts: one line for each of last + 1 capacities.
set logscale x 2
set xrange [0.9:*]
set yrange [0:1.2<*]
set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lt 8
plot for [i=0:last] data index i using 1:2 with linespoints lt (i%6+1) pt 7 title columnheader(1), \
     for [i=0:last] data index i using 1:2:3:4 with yerrorbars lt (i%6+1) pt 7 notitle, \
     for [i=0:last] data index i using 1:2:(hover(sprintf('max/mean %.3g: %.2f%s, %s', $1, $2, ends('%.2f', $3, $4), columnheader(1)))) with labels left font ',0.01' notitle
