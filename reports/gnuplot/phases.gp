# A bar of phases for each plan, the fastest on top, with the interval of the sum.
stats data index 0 using 1 name 'place' nooutput
stats data index 0 using 10 name 'most' nooutput
set grid noytics
set yrange [place_min-0.6:place_max+0.6]
set xrange [0:most_max*1.05]
array names[6] = ['between nodes', 'inside nodes', 'gate and route', 'encode and decode', 'experts', 'other']
below(i) = i > 2 ? sum [k=2:i-1] column(k) : 0
plot for [i=2:7] data index 0 using (below(i)+0.5*column(i)):1:(below(i)):(below(i+1)):($1-0.38):($1+0.38):ytic(11) with boxxyerror lt (i-1) fs solid 1.0 noborder title names[i-1], \
     data index 0 using 8:1:9:10 with xerrorbars lt 8 pt 7 ps 0.3 notitle, \
     for [i=2:7] data index 0 using (below(i)+0.5*column(i)):1:(hover(sprintf('%s: %s %.4g of %.4g ms', stringcolumn(11), names[i-1], column(i), $8))) with labels left font ',0.01' notitle
