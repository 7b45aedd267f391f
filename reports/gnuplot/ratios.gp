# Plans against the table's plan.  The range of y is limited, so that one slow plan does not flatten the others.
stats data using 2 nooutput
wide = 4*STATS_up_quartile - 3
wide = wide > 1.2 ? wide : 1.2
set yrange [(STATS_min < 0.95 ? 0.97*STATS_min : 0.92):(STATS_max < wide ? (STATS_max > 1.1 ? 1.03*STATS_max : 1.13) : wide)]
set arrow 1 from graph 0, first 1 to graph 1, first 1 nohead lt 18 lw 1.5
last = STATS_blocks - 1
plot data index 1 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 17 pt 7 ps 0.4 title columnheader(1), \
     data index 0 using (at($1,1)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 11 pt 5 title columnheader(1), \
     NaN with lines lt 18 lw 1.5 title "table's plan", \
     for [i=2:last] data index i using 1:2:(hover(sprintf(at_key.' = %d: %.3f, %s', $1, $2, columnheader(1)))) with labels left font ',0.01' notitle, \
     data index 0 using 1:2:(hover(sprintf(at_key.' = %d: %.3f, default plan', $1, $2))) with labels left font ',0.01' notitle, \
     for [i=2:last] data index i using (at($1,i)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt (rival[i-1]) pt (2*i+3) title columnheader(1)
