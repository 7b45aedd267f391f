# Each half alone, in percent of the step.  A half that took longer than the whole step was disturbed, and is not drawn.
set yrange [0:*<150]
share(part, step) = part <= 1.1 * step ? 100.0 * part / step : NaN
plot 100 notitle with lines lt 8, \
     data index 0 using (at($1,0)):(share($2,$4)) with points lt 3 pt 9 title 'compute alone', \
     data index 0 using (at($1,0)):(share($3,$4)) with points lt 4 pt 5 title 'communication alone', \
     data index 0 using 1:(share($2,$4)):(hover(sprintf('c = %d: compute %.4g ms, communication %.4g ms, step %.4g ms', $1, $2, $3, $4))) with labels left font ',0.01' notitle
