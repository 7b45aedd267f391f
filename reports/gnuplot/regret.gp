# How much more time the plans of neighbouring buckets take; the line is at 3 %.
set yrange [*<-1:4<*] noextend
set offsets 0, 0, graph 0.04, graph 0.04
set arrow 1 from graph 0, first 3 to graph 1, first 3 nohead lt 8 dt 2
plot data index 0 using 1:($3 == 1 ? $2 : NaN) with points lt 1 pt 7 title columnheader(1), \
     data index 1 using ($1*shift(1)):($3 == 1 ? $2 : NaN) with points lt 2 pt 5 title columnheader(1), \
     data index 0 using 1:($3 == 1 ? NaN : $2) with points lt 1 pt 6 title 'below, interpolated', \
     data index 1 using ($1*shift(1)):($3 == 1 ? NaN : $2) with points lt 2 pt 4 title 'above, interpolated', \
     NaN with lines lt 8 dt 2 title '3 %', \
     data index 0 using 1:2:(hover(sprintf(at_key.' = %d: %.1f %% more with the plan below', $1, $2))) with labels left font ',0.01' notitle, \
     data index 1 using 1:2:(hover(sprintf(at_key.' = %d: %.1f %% more with the plan above', $1, $2))) with labels left font ',0.01' notitle
