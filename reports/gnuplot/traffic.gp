# Look-ups as bars, gains as points.
set yrange [*<-2:5<*]
set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lt 8
plot data index 0 using 1:2 with impulses lt 1 lw 3 title columnheader(1), \
     data index 1 using 1:2 with impulses lt 3 lw 3 title columnheader(1), \
     data index 2 using 1:2 with impulses lt 4 lw 3 title columnheader(1), \
     data index 0 using 1:3 with points lt 2 pt 7 title 'gain over the default plan', \
     data index 1 using 1:3 with points lt 2 pt 6 title 'gain of inferred entries', \
     data index 0 using 1:2:(hover(sprintf(at_key.' = %d: %.1f %% of the look-ups, gain %.1f %%', $1, $2, $3))) with labels left font ',0.01' notitle, \
     data index 1 using 1:2:(hover(sprintf(at_key.' = %d: %.1f %% of the look-ups, gain %.1f %%, inferred', $1, $2, $3))) with labels left font ',0.01' notitle
