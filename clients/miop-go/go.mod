module holdline.example/miop

go 1.21
