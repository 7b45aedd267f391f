# Buckets by plan: measured, and pale inferred ones.
stats data using 1 name 'place' nooutput
stats data using ($2+$3) name 'count' nooutput
set grid noytics
set yrange [place_min-0.6:place_max+0.6]
set xrange [0:count_max*1.15]
plot data using (0.5*$2):1:(0):2:($1-0.38):($1+0.38):ytic(4) with boxxyerror lt 1 fs solid 1.0 noborder title 'measured', \
     data using ($2+0.5*$3):1:2:($2+$3):($1-0.38):($1+0.38) with boxxyerror lt 1 fs transparent solid 0.35 noborder title 'inferred', \
     data using ($2+$3):1:(sprintf('%d', $2+$3)) with labels left offset 0.7,0 notitle, \
     data using (0.5*($2+$3)):1:(hover(sprintf('%s: %d measured, %d inferred', stringcolumn(4), $2, $3))) with labels left font ',0.01' notitle
