//! Curve arithmetic as tables of operations on registers, so that a kernel has one product in its text, whatever formulas
//! it follows: what a device's compiler costs, and how long it takes, goes by the products in the text.
//!
//! A register is an element of Fp; a coordinate takes [`Coordinate::DEGREE`] of them, one behind the other. In units of
//! coordinates, a sum stands in registers 0 to 3 as X, Y, ZZ, ZZZ (affine X/ZZ, Y/ZZZ; infinity has ZZ = 0), what is
//! added to it in 4 to 7, and what an addition first finds out in 8 and 9: P and R, both 0 if the points are equal, P alone
//! if they are opposite. Then the table's second part is wrong, and shaders/curve.wgsl doubles or clears the sum instead.

use std::ops::Range;

/// What an operation does with two registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Multiply,
    Add,
    Subtract,
}

/// `registers[out] = kind(registers[left], registers[right])`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    kind: Kind,
    out: usize,
    left: usize,
    right: usize,
}

impl Operation {
    /// As shaders/curve.wgsl reads it: 2 bits of the kind and 6 for each register, from the lowest.
    fn word(&self) -> u32 {
        let [out, left, right] = [self.out, self.left, self.right].map(|register| {
            assert!(register < 64, "register {register}");
            register as u32
        });
        self.kind as u32 | out << 2 | left << 8 | right << 14
    }
}

/// A part of the table up to P and R, and one for what follows.
#[derive(Clone, Debug)]
pub(crate) struct Addition {
    pub compare: Range<usize>,
    pub finish: Range<usize>,
}

/// The operations of one group.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub operations: Vec<Operation>,
    /// Registers that they use.
    pub registers: usize,
    /// The sum and an affine point, which stands in coordinates 4 and 5. EFD madd-2008-s: 8M + 2S.
    pub mixed: Addition,
    /// The sum and another. EFD add-2008-s: 12M + 2S.
    pub full: Addition,
    /// Twice the sum. EFD dbl-2008-s-1, a = 0: 6M + 3S; of infinity, infinity.
    pub double: Range<usize>,
    /// Of a sum that is not infinity: [`PRODUCT`] times the norm of ZZZ, which is ZZZ over Fp.
    pub product: Range<usize>,
    /// [`POWER`]'s square, and that times [`PRODUCT`].
    pub power: Range<usize>,
    /// The sum's affine form in coordinates 0 and 1, where [`POWER`] is the inverse of [`BEFORE`] times the norm of ZZZ; and
    /// [`POWER`] times the norm.
    pub affine: Range<usize>,
}

/// What the programs of batched inversions have behind the sum, an element of Fp each.
const PRODUCT: usize = 0;
const POWER: usize = 1;
const BEFORE: usize = 2;

impl Programs {
    /// Those for coordinates of so many elements of Fp: 1 or 2.
    pub fn new(degree: usize) -> Self {
        let mut all = Self {
            operations: Vec::new(),
            registers: 0,
            mixed: Addition { compare: 0..0, finish: 0..0 },
            full: Addition { compare: 0..0, finish: 0..0 },
            double: 0..0,
            product: 0..0,
            power: 0..0,
            affine: 0..0,
        };
        all.mixed = all.addition(mixed(degree));
        all.full = all.addition(full(degree));
        all.double = all.push(double(degree)).0;
        all.product = all.push(product(degree)).0;
        all.power = all.push(power(degree)).0;
        all.affine = all.push(affine(degree)).0;
        all
    }

    /// The table's words, filled up to whole vectors of four.
    pub fn words(&self) -> Vec<u32> {
        let mut words: Vec<_> = self.operations.iter().map(Operation::word).collect();
        words.resize(words.len().next_multiple_of(4), 0);
        words
    }

    /// The constants of shaders/curve.wgsl.
    pub fn constants(&self, degree: usize) -> Vec<(&'static str, u32)> {
        vec![
            ("DEGREE", degree as u32),
            ("REGISTERS", self.registers as u32),
            ("PROGRAM_VECTORS", self.words().len() as u32 / 4),
            ("MIXED", self.mixed.compare.start as u32),
            ("MIXED_FINISH", self.mixed.finish.start as u32),
            ("MIXED_END", self.mixed.finish.end as u32),
            ("FULL", self.full.compare.start as u32),
            ("FULL_FINISH", self.full.finish.start as u32),
            ("FULL_END", self.full.finish.end as u32),
            ("DOUBLE", self.double.start as u32),
            ("DOUBLE_END", self.double.end as u32),
            ("PRODUCT", (4 * degree + PRODUCT) as u32),
            ("POWER", (4 * degree + POWER) as u32),
            ("BEFORE", (4 * degree + BEFORE) as u32),
            ("TO_PRODUCT", self.product.start as u32),
            ("TO_PRODUCT_END", self.product.end as u32),
            ("TO_POWER", self.power.start as u32),
            ("TO_AFFINE", self.affine.start as u32),
            ("TO_AFFINE_END", self.affine.end as u32),
        ]
    }

    fn addition(&mut self, formula: Formula) -> Addition {
        let (all, split) = self.push(formula);
        Addition { compare: all.start..split, finish: split..all.end }
    }

    /// Where the formula's operations now stand, and where its second part starts.
    fn push(&mut self, formula: Formula) -> (Range<usize>, usize) {
        let start = self.operations.len();
        let split = start + formula.split;
        let (operations, registers) = formula.assign();
        self.operations.extend(operations);
        self.registers = self.registers.max(registers);
        (start..self.operations.len(), split)
    }
}

/// A value: an input's or an operation's.
type Value = usize;
/// A coordinate's values, one or two.
type Coordinate = Vec<Value>;

/// Operations on values that are assigned once.
struct Formula {
    degree: usize,
    /// The first values, in the registers of the same numbers.
    inputs: usize,
    operations: Vec<(Kind, Value, Value)>,
    /// Values that must be in certain registers.
    pinned: Vec<(Value, usize)>,
    /// Where the second part starts. Until then the sum's registers keep what they have.
    split: usize,
}

impl Formula {
    /// One of so many coordinates, and of further elements of Fp.
    fn new(degree: usize, coordinates: usize, further: usize) -> Self {
        let inputs = degree * coordinates + further;
        Self { degree, inputs, operations: Vec::new(), pinned: Vec::new(), split: 0 }
    }

    fn input(&self, coordinate: usize) -> Coordinate {
        (self.degree * coordinate..self.degree * (coordinate + 1)).collect()
    }

    /// Makes `x` end up in the registers of `coordinate`.
    fn output(&mut self, coordinate: usize, x: &Coordinate) {
        let first = self.degree * coordinate;
        self.pinned.extend(x.iter().zip(first..).map(|(value, register)| (*value, register)));
    }

    fn push(&mut self, kind: Kind, left: Value, right: Value) -> Value {
        self.operations.push((kind, left, right));
        self.inputs + self.operations.len() - 1
    }

    fn each(&mut self, kind: Kind, x: &Coordinate, y: &Coordinate) -> Coordinate {
        x.iter().zip(y).map(|(x, y)| self.push(kind, *x, *y)).collect()
    }

    fn add(&mut self, x: &Coordinate, y: &Coordinate) -> Coordinate {
        self.each(Kind::Add, x, y)
    }

    fn sub(&mut self, x: &Coordinate, y: &Coordinate) -> Coordinate {
        self.each(Kind::Subtract, x, y)
    }

    /// Over Fp2 with three products, (x0 + x1)(y0 + y1) - x0 y0 - x1 y1 being the coefficient of u.
    fn mul(&mut self, x: &Coordinate, y: &Coordinate) -> Coordinate {
        let (&[x0, x1], &[y0, y1]) = (&x[..], &y[..]) else {
            return self.each(Kind::Multiply, x, y);
        };
        let (x_sum, y_sum) = (self.push(Kind::Add, x0, x1), self.push(Kind::Add, y0, y1));
        let cross = self.push(Kind::Multiply, x_sum, y_sum);
        let low = self.push(Kind::Multiply, x0, y0);
        let high = self.push(Kind::Multiply, x1, y1);
        let cross = self.push(Kind::Subtract, cross, low);
        let cross = self.push(Kind::Subtract, cross, high);
        vec![self.push(Kind::Subtract, low, high), cross]
    }

    /// Over Fp2 with two products: (x0 + x1)(x0 - x1) and 2 x0 x1.
    fn square(&mut self, x: &Coordinate) -> Coordinate {
        let [x0, x1] = x[..] else { return self.mul(x, x) };
        let (sum, difference) = (self.push(Kind::Add, x0, x1), self.push(Kind::Subtract, x0, x1));
        let real = self.push(Kind::Multiply, sum, difference);
        let half = self.push(Kind::Multiply, x0, x1);
        vec![real, self.push(Kind::Add, half, half)]
    }

    /// Ends the first part, with P and R where they are looked for.
    fn split(&mut self, p: &Coordinate, r: &Coordinate) {
        self.output(8, p);
        self.output(9, r);
        self.split = self.operations.len();
    }

    /// Registers for all values, each reused after its value's last use, and how many these are.
    fn assign(&self) -> (Vec<Operation>, usize) {
        let values = self.inputs + self.operations.len();
        let pin = |value| self.pinned.iter().find(|(pinned, _)| *pinned == value).map(|pin| pin.1);
        let sum = 4 * self.degree;
        // The operation that uses a value last. Results are used after all.
        let mut last = vec![0; values];
        last[..sum].fill(self.split.saturating_sub(1));
        for (i, (_, left, right)) in self.operations.iter().enumerate() {
            (last[*left], last[*right]) = (i, i);
        }
        for (value, register) in &self.pinned {
            if *register < sum {
                last[*value] = self.operations.len();
            }
        }
        let mut free = vec![true; 10 * self.degree];
        free[..self.inputs].fill(false);
        let reserved: Vec<_> = self.pinned.iter().map(|pin| pin.1).collect();
        let mut place: Vec<_> = (0..self.inputs).collect();
        let mut operations = Vec::new();
        for (i, (kind, left, right)) in self.operations.iter().enumerate() {
            let value = self.inputs + i;
            // Operands are read before the result is written.
            for dead in (0..value).filter(|dead| last[*dead] == i) {
                free[place[dead]] = true;
            }
            let register = pin(value).unwrap_or_else(|| {
                let unused = |register: &usize| free[*register] && !reserved.contains(register);
                (0..free.len()).find(unused).unwrap_or_else(|| {
                    free.push(true);
                    free.len() - 1
                })
            });
            assert!(free[register], "register {register} is in use at operation {i}");
            free[register] = false;
            place.push(register);
            let (left, right) = (place[*left], place[*right]);
            operations.push(Operation { kind: *kind, out: register, left, right });
        }
        (operations, free.len())
    }
}

// The names of EFD, 1 for the sum and 2 for what is added.

fn mixed(degree: usize) -> Formula {
    let mut f = Formula::new(degree, 6, 0);
    let [x1, y1, zz1, zzz1, x2, y2] = [0, 1, 2, 3, 4, 5].map(|coordinate| f.input(coordinate));
    let u2 = f.mul(&x2, &zz1);
    let p = f.sub(&u2, &x1);
    let s2 = f.mul(&y2, &zzz1);
    let r = f.sub(&s2, &y1);
    f.split(&p, &r);
    finish(&mut f, [x1, y1, zz1, zzz1], &p, &r);
    f
}

fn full(degree: usize) -> Formula {
    let mut f = Formula::new(degree, 8, 0);
    let [x1, y1, zz1, zzz1] = [0, 1, 2, 3].map(|coordinate| f.input(coordinate));
    let [x2, y2, zz2, zzz2] = [4, 5, 6, 7].map(|coordinate| f.input(coordinate));
    let u2 = f.mul(&x2, &zz1);
    let u1 = f.mul(&x1, &zz2);
    let p = f.sub(&u2, &u1);
    let s2 = f.mul(&y2, &zzz1);
    let s1 = f.mul(&y1, &zzz2);
    let r = f.sub(&s2, &s1);
    f.split(&p, &r);
    let zz = f.mul(&zz1, &zz2);
    let zzz = f.mul(&zzz1, &zzz2);
    finish(&mut f, [u1, s1, zz, zzz], &p, &r);
    f
}

/// From U1, S1, ZZ1 ZZ2, ZZZ1 ZZZ2, P and R to the sum.
fn finish(f: &mut Formula, [u1, s1, zz, zzz]: [Coordinate; 4], p: &Coordinate, r: &Coordinate) {
    let pp = f.square(p);
    let ppp = f.mul(p, &pp);
    let q = f.mul(&u1, &pp);
    let zz3 = f.mul(&zz, &pp);
    f.output(2, &zz3);
    let zzz3 = f.mul(&zzz, &ppp);
    f.output(3, &zzz3);
    let s = f.mul(&s1, &ppp);
    // X3 = R^2 - PPP - 2Q
    let mut x3 = f.square(r);
    x3 = f.sub(&x3, &ppp);
    x3 = f.sub(&x3, &q);
    x3 = f.sub(&x3, &q);
    f.output(0, &x3);
    // Y3 = R (Q - X3) - S1 PPP
    let mut y3 = f.sub(&q, &x3);
    y3 = f.mul(r, &y3);
    y3 = f.sub(&y3, &s);
    f.output(1, &y3);
}

fn double(degree: usize) -> Formula {
    let mut f = Formula::new(degree, 4, 0);
    let [x1, y1, zz1, zzz1] = [0, 1, 2, 3].map(|coordinate| f.input(coordinate));
    let u = f.add(&y1, &y1);
    let v = f.square(&u);
    let w = f.mul(&u, &v);
    let s = f.mul(&x1, &v);
    let zz3 = f.mul(&v, &zz1);
    f.output(2, &zz3);
    let zzz3 = f.mul(&w, &zzz1);
    f.output(3, &zzz3);
    let wy = f.mul(&w, &y1);
    // M = 3 X1^2
    let square = f.square(&x1);
    let mut m = f.add(&square, &square);
    m = f.add(&m, &square);
    // X3 = M^2 - 2S
    let mut x3 = f.square(&m);
    x3 = f.sub(&x3, &s);
    x3 = f.sub(&x3, &s);
    f.output(0, &x3);
    // Y3 = M (S - X3) - W Y1
    let mut y3 = f.sub(&s, &x3);
    y3 = f.mul(&m, &y3);
    y3 = f.sub(&y3, &wy);
    f.output(1, &y3);
    f
}

/// The norm of an element that is not 0.
fn norm(f: &mut Formula, x: &Coordinate) -> Value {
    let [x0, x1] = x[..] else { return x[0] };
    let (real, other) = (f.push(Kind::Multiply, x0, x0), f.push(Kind::Multiply, x1, x1));
    f.push(Kind::Add, real, other)
}

fn product(degree: usize) -> Formula {
    let mut f = Formula::new(degree, 4, 1);
    let place = 4 * degree + PRODUCT;
    let zzz = f.input(3);
    let norm = norm(&mut f, &zzz);
    let product = f.push(Kind::Multiply, place, norm);
    f.pinned.push((product, place));
    f
}

fn power(degree: usize) -> Formula {
    let mut f = Formula::new(degree, 4, 2);
    let place = 4 * degree + POWER;
    let square = f.push(Kind::Multiply, place, place);
    f.pinned.push((square, place));
    let power = f.push(Kind::Multiply, square, 4 * degree + PRODUCT);
    f.pinned.push((power, place));
    f
}

fn affine(degree: usize) -> Formula {
    let mut f = Formula::new(degree, 4, 3);
    let [power, before] = [POWER, BEFORE].map(|place| 4 * degree + place);
    let [x, y, zz, zzz] = [0, 1, 2, 3].map(|coordinate| f.input(coordinate));
    let norm = norm(&mut f, &zzz);
    let inverse = f.push(Kind::Multiply, power, before);
    let next = f.push(Kind::Multiply, power, norm);
    f.pinned.push((next, power));
    // 1/(x0 + x1 u) = (x0 - x1 u)/norm
    let inverse = match zzz[..] {
        [x0, x1] => {
            let real = f.push(Kind::Multiply, x0, inverse);
            let other = f.push(Kind::Multiply, x1, inverse);
            let zero = f.push(Kind::Subtract, other, other);
            vec![real, f.push(Kind::Subtract, zero, other)]
        }
        _ => vec![inverse],
    };
    // 1/ZZ = (ZZ/ZZZ)^2, since ZZ^3 = ZZZ^2
    let y = f.mul(&y, &inverse);
    f.output(1, &y);
    let mut of_zz = f.mul(&zz, &inverse);
    of_zz = f.square(&of_zz);
    let x = f.mul(&x, &of_zz);
    f.output(0, &x);
    f
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::{self, Affine, Point};
    use crate::field::{Field, Fp, Fp2, Fr};

    /// What shaders/curve.wgsl does with a table.
    struct Machine<'a> {
        programs: &'a Programs,
        registers: Vec<Fp>,
    }

    impl Machine<'_> {
        fn run(&mut self, range: Range<usize>) {
            for Operation { kind, out, left, right } in &self.programs.operations[range] {
                let (left, right) = (self.registers[*left], self.registers[*right]);
                self.registers[*out] = match kind {
                    Kind::Multiply => left * right,
                    Kind::Add => left + right,
                    Kind::Subtract => left - right,
                };
            }
        }

        /// The sum's points differ and are not infinity, or are the same, or opposite.
        fn add(&mut self, addition: &Addition, degree: usize) {
            self.run(addition.compare.clone());
            let is_zero = |coordinate: usize| {
                let first = degree * coordinate;
                self.registers[first..first + degree].iter().all(Fp::is_zero)
            };
            match (is_zero(8), is_zero(9)) {
                (true, true) => self.run(self.programs.double.clone()),
                (true, false) => self.registers[..4 * degree].fill(Fp::ZERO),
                _ => self.run(addition.finish.clone()),
            }
        }
    }

    /// XYZZ coordinates of a point, with Z = z.
    fn xyzz<F: curve::Coordinate>(point: &Affine<F>, z: F) -> [F; 4] {
        let (zz, zzz) = (z.square(), z.square() * z);
        [point.x() * zz, point.y() * zzz, zz, zzz]
    }

    fn affine<F: curve::Coordinate>(registers: &[Fp]) -> Affine<F> {
        let mut coordinates = registers.chunks(F::DEGREE).map(F::from_coefficients);
        let [x, y, zz, zzz] = std::array::from_fn(|_| coordinates.next().expect("four"));
        assert_eq!(zz.square() * zz, zzz.square());
        Affine([x * zz.inverse(), y * zzz.inverse()])
    }

    fn agrees<F: curve::Coordinate>() {
        let programs = Programs::new(F::DEGREE);
        let of = |k: Fr| F::generator().to_point().scale(&k).to_affine();
        let points = [1, 2, 3].map(Fr::from).map(|k| [of(k), of(-k)]).concat();
        let z = F::ONE.double() + F::ONE;
        for (p, q) in points.iter().flat_map(|p| points.iter().map(move |q| (p, q))) {
            for (addition, other) in [
                (&programs.mixed, vec![q.x(), q.y()]),
                (&programs.full, xyzz(q, z.square()).to_vec()),
            ] {
                let coordinates = [xyzz(p, z).as_slice(), &other].concat();
                let mut registers: Vec<Fp> = bytemuck::cast_slice(&coordinates).to_vec();
                registers.resize(programs.registers, -Fp::ONE);
                let mut machine = Machine { programs: &programs, registers };
                machine.add(addition, F::DEGREE);
                let sum: Point<F> = p.to_point() + *q;
                assert_eq!(affine::<F>(&machine.registers[..4 * F::DEGREE]), sum.to_affine());
            }
        }
    }

    #[test]
    fn programs_add() {
        agrees::<Fp>();
        agrees::<Fp2>();
    }

    /// Three points made affine with one inversion, as shaders/multiples_affine.wgsl does it.
    fn inverts<F: curve::Coordinate>() {
        let programs = Programs::new(F::DEGREE);
        let g = F::generator().to_point();
        let points = [2, 3, 5].map(|k| g.scale(&Fr::from(k)).to_affine());
        let z = F::ONE.double() + F::ONE;
        let zs = [z, z.square(), -z];
        let [product, power, before] = [PRODUCT, POWER, BEFORE].map(|place| 4 * F::DEGREE + place);
        let mut machine =
            Machine { programs: &programs, registers: vec![Fp::ONE; programs.registers] };
        let load = |machine: &mut Machine<'_>, i: usize| {
            let point = xyzz(&points[i], zs[i]);
            machine.registers[..4 * F::DEGREE].copy_from_slice(bytemuck::cast_slice(&point));
        };
        let mut products = vec![Fp::ONE];
        for i in 0..3 {
            load(&mut machine, i);
            machine.run(programs.product.clone());
            products.push(machine.registers[product]);
        }
        let exponent = Fp::MODULUS.map(|limb| limb - u64::from(limb == Fp::MODULUS[0]) * 2);
        machine.registers[power] = Fp::ONE;
        for bit in (0..384).rev() {
            let is_set = exponent[bit / 64] >> (bit % 64) & 1 == 1;
            let start = programs.power.start;
            machine.run(start..start + 1 + usize::from(is_set));
        }
        assert_eq!(machine.registers[power], products[3].inverse());
        for i in (0..3).rev() {
            load(&mut machine, i);
            machine.registers[before] = products[i];
            machine.run(programs.affine.clone());
            let got: &[F] = bytemuck::cast_slice(&machine.registers[..2 * F::DEGREE]);
            assert_eq!(got, [points[i].x(), points[i].y()]);
        }
    }

    #[test]
    fn programs_invert_in_batches() {
        inverts::<Fp>();
        inverts::<Fp2>();
    }

    #[test]
    fn programs_are_short() {
        let products = |programs: &Programs, range: Range<usize>| {
            let operations = &programs.operations[range];
            operations.iter().filter(|operation| operation.kind == Kind::Multiply).count()
        };
        let of = |degree| {
            let programs = Programs::new(degree);
            let Programs { mixed, full, double, .. } = &programs;
            let all = |addition: &Addition| addition.compare.start..addition.finish.end;
            let counts = [all(mixed), all(full), double.clone()];
            (counts.map(|range| products(&programs, range)), programs.registers)
        };
        assert_eq!(of(1), ([10, 14, 9], 12));
        assert_eq!(of(2), ([28, 40, 24], 26));
    }
}
