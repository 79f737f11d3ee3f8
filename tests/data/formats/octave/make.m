% Writes the files beside it, and those of ../matlab: the types that Octave's value classes save, each once.
iter=120; epoch=4; s.a=1; s.b='text'; s.c={1,'x',[1 2;3 4]}; s.step=9; c={1,'two',{3}}; b=true; bm=[true false];
i8=int8(5); i32=int32([1 2;3 4]); u64=uint64(7); z=1+2i; zm=[1+2i 3]; str='hello world'; strm=['ab';'cd']; r=1:10; em=[];
nd=reshape(1:24,2,3,4); sp=sparse([1 2],[1 2],[3 4]); sa(1).x=1; sa(2).x=2; fs=single(3); fm=single([1 2]);
nn=[NaN Inf -Inf NA]; dq="line\nbreak"; e0=zeros(0,3); ce={}; rng=0:0.25:1; bb=NA; none=''; cc=cell(2,2);
save -text state_text.mat; save -text -zip state_zip.mat; save -binary state_binary.mat; save -float-binary state_float.mat;
clear rng; save -v6 ../matlab/state_v6.mat; save -v7 ../matlab/state_v7.mat; save -v4 ../matlab/state_v4.mat iter epoch nn str
