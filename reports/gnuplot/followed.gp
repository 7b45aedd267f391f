# Capacities of drawn + 1 experts, and of all experts together under three rules.
set yrange [0:*]
plot for [i=0:drawn] data index (3+i) using 1:3 with lines lt (i%6+1) lw 0.5 dt 3 notitle, \
     for [i=0:drawn] data index (3+i) using 1:2 with steps lt (i%6+1) lw 2 title columnheader(1), \
     data index 0 using 1:2 with steps lt 8 dt 2 title columnheader(1), \
     data index 1 using 1:2 with steps lt 8 dt 4 title columnheader(1), \
     data index 2 using 1:2 with steps lt 8 lw 2 title columnheader(1), \
     for [i=0:2] data index i using 1:2:(hover(sprintf('step %d: %.2f, %s', $1, $2, columnheader(1)))) with labels left font ',0.01' notitle
