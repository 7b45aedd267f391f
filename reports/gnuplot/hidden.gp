# The hidden share.  The line at 0 is needed: if all points lie outside the range, gnuplot draws nothing at all.
set yrange [0:100]
plot 0 notitle with lines lt 8, \
     data index 0 using (at($1,0)):5:6:7 with yerrorbars lt 1 pt 7 notitle, \
     data index 0 using 1:5:(hover(sprintf('c = %d: %.0f %% hidden%s', $1, $5, ends('%.0f', $6, $7)))) with labels left font ',0.01' notitle
