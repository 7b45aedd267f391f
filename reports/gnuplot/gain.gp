# What the table saves over the default plan and over the best static one, whose line type is static.
set yrange [*<-2:5<*]
set arrow 1 from graph 0, first 0 to graph 1, first 0 nohead lt 8
plot data index 1 using 1:2 with points lt 11 pt 5 ps 0.3 title columnheader(1), \
     data index 0 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 11 pt 5 title columnheader(1), \
     data index 2 using (at($1,2)):2 with points lt static pt 9 title name_of_static, \
     data index 3 using (at($1,2)):2 with points lt static pt 8 title columnheader(1), \
     data index 0 using 1:2:(hover(sprintf(at_key.' = %d: %.1f %%%s over the default plan', $1, $2, ends('%.1f', $3, $4)))) with labels left font ',0.01' notitle, \
     data index 2 using 1:2:(hover(sprintf(at_key.' = %d: %.1f %% %s', $1, $2, name_of_static))) with labels left font ',0.01' notitle
