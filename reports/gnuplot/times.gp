# Two panels over one axis: times, and below them the table's plans.  Drawn twice for a page, for wide and narrow screens.
# plots.c says which capacity the axis begins with (from), at(c, i) where the i-th series has its points, and how many bands.
# Tics at powers of two: those of ten are too few in a small range.
set logscale y 2
mid(a, b) = 0.5*(a + b)
on(kind, wanted) = kind == wanted ? 0.5 : NaN
pale(inferred) = inferred == 1 ? ', inferred' : ''
do for [narrow=0:(page ? 1 : 0)] {
if (narrow) { eval narrow_svg; set output name.'.narrow.svg' }
if (!narrow && page) { eval wide_svg; set output name.'.svg' }
left = page && !narrow ? 0.1 : 0.2
low = narrow ? 0.36 : 0.28
if (page) { set label 103 mark at screen 0.02, 0.97 font small }
set multiplot
set lmargin at screen left; set rmargin at screen 0.97
set tmargin at screen top; set bmargin at screen low + 0.08
set xlabel ''; set format x ''
set key inside top left vertical Left reverse samplen 2 font small
plot data index 2 using 1:2 with linespoints lt 11 pt 5 ps 0.5 title columnheader(1), \
     data index 3 using 1:2 with linespoints lt static pt 9 ps 0.5 dt 2 title columnheader(1), \
     data index 1 using 1:2 with points lt 18 pt 7 ps 0.25 notitle, \
     data index 0 using (at($1,0)):2:(f($2,$3)):(f($2,$4)) with yerrorbars lt 18 pt 7 notitle, \
     data index 0 using 1:2 with linespoints lt 18 lw 2 pt 7 title columnheader(1), \
     for [i=0:3] data index i using 1:2:(hover(sprintf(at_key.' = %d: %.4g ms, %s', $1, $2, columnheader(1)))) with labels left font ',0.01' notitle
set key inside at screen left, screen (narrow ? 0.25 : 0.13) top left horizontal Left
set key reverse samplen 1 font small maxcols (narrow ? 1 : 4)
set tmargin at screen low + 0.06; set bmargin at screen low
set format x '%.0f'; set xlabel over; set ylabel ''
unset logscale y; unset ytics; unset grid; set yrange [0:1]; set border 1
unset label 101; unset label 102; unset label 103
set style fill solid 1.0 noborder
plot for [k=4:3+bands] data index k using (mid($1,$2)):(on($3,0)):(from($1)):2:(0):(1) \
         with boxxyerror lt (band[k-3]) title columnheader(1), \
     for [k=4:3+bands] data index k using (mid($1,$2)):(on($3,1)):(from($1)):2:(0):(1) \
         with boxxyerror lt (band[k-3]) fs transparent solid 0.55 noborder notitle, \
     for [k=4:3+bands] data index k using (from(mid($1,$2))):(0.5): \
         (hover(sprintf(at_key.' = %d to %d: %s%s', $1, $2 - 1, stringcolumn(6), pale($3)))) with labels left font ',0.01' notitle
unset multiplot
set ylabel 'step, ms'; set ytics; set grid; set logscale y 2; set border 3; set autoscale y
}
